"""The data of a run: opened once for all runs of a command, with the validation split of its recipe."""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from threading import Lock
from typing import Protocol
from weakref import WeakValueDictionary

from tailcloud.calibration.run_calibration import check_held_out, check_selection, stages_needing_held_out
from tailcloud.data import OWN, Dataset, ReadOptions, hold_out, limit_classes, open_dataset, parse_spec
from tailcloud.data.loaders.decoder_pool import end_spare_decoders
from tailcloud.data.readers.build_dataset import OpenedFiles
from tailcloud.data.readers.open_path import open_headers
from tailcloud.errors import UsageError
from tailcloud.recipe import Data, Recipe

_lock = Lock()  # runs in threads share the data set that the first of them opens
_same_images: dict[Data, Data] = {}
_decoded = WeakValueDictionary[tuple[Data, str], Dataset]()  # as long as somebody uses them
_opened_files: dict[Data, OpenedFiles] = {}  # by [data] without what is chosen later


class DataSource(Protocol):
    """Labelled images from Python code, instead of the name or path of a data set."""

    @property
    def spec(self) -> str:
        """The name of the data in recipes and results."""

    @property
    def resizable(self) -> bool:
        """Whether the images can be read at another size."""

    def open(self, options: ReadOptions) -> Dataset:
        """The images, read as the recipe says. If there is no test split, ``test`` is the same object as ``train``."""


@dataclass(frozen=True)
class OpenDataset:
    """A data set that is open already."""

    dataset: Dataset
    resizable = False

    @property
    def spec(self) -> str:
        """The name of the data set."""
        return self.dataset.spec

    def open(self, options: ReadOptions) -> Dataset:
        """The data set itself; options that would read its images in another way are refused."""
        size = self.dataset.shape[0]
        if options.size not in {None, size}:
            raise UsageError(
                f"the recipe has data.size = {options.size}, and {self.spec} is open already with images of {size} "
                f"pixels; add data.size={size} to the settings, or pass the path of the images"
            )
        for field in fields(options):
            value = getattr(options, field.name)
            if field.name != "size" and value != field.default:
                raise UsageError(f"data.{field.name} = {value} is for files, and {self.spec} is open; leave it out")
        return self.dataset


class CachedSource:
    """A data source that caches the data set it opened last, for choosing a recipe and for training."""

    def __init__(self, source: DataSource) -> None:
        self.source = source
        self._opened: Dataset | None = None
        self._options = ReadOptions()

    @property
    def spec(self) -> str:
        """The name of the data."""
        return self.source.spec

    @property
    def resizable(self) -> bool:
        """Whether the images can be read at another size."""
        return self.source.resizable

    def open(self, options: ReadOptions) -> Dataset:
        """The data set; opened again only for another image size, fit or number of images."""
        if self._opened is None or not self._has(options):
            self._opened, self._options = self.source.open(options), options
        return self._opened

    def _has(self, options: ReadOptions) -> bool:
        last, size = self._options, self._opened.shape[0] if self._opened else None
        return options.size in {None, size} and (options.fit, options.max_count) == (last.fit, last.max_count)


def open_data(recipe: Recipe, source: DataSource | None = None) -> Dataset:
    """The data of a recipe, with its validation and test splits.

    Raises:
        UsageError: a stage needs held-out images and there are none.
    """
    whole = open_whole(recipe, source)
    split = recipe.selection.split
    dataset = hold_out(whole, split) if source else _opened(recipe, split)
    if not has_test(whole):
        dataset = with_test_split(dataset, recipe)
    check_held_out(recipe, dataset)
    check_selection(recipe, dataset)
    end_spare_decoders()  # whatever is read from now on is read by the run
    return dataset


def open_whole(recipe: Recipe, source: DataSource | None = None) -> Dataset:
    """The data of a recipe before any training image is held out."""
    return source.open(recipe.data.read_options) if source else _opened(recipe, 0.0)


def _opened(recipe: Recipe, split: float) -> Dataset:
    """The data of a recipe by name or path, with that share of each class held out."""
    with _lock:
        return _cached_dataset(_same_images.get(recipe.data, recipe.data), recipe.root, split)


def open_for_choice(recipe: Recipe, source: DataSource | None = None) -> Dataset:
    """The data before a recipe is chosen: image files are not decoded, because the choice says at which size.

    Their headers are kept until ``open_data`` decodes them.
    """
    data = recipe.data
    if source or parse_spec(data.spec)[0] != OWN:
        return open_whole(recipe, source)
    files = open_headers(data.spec, recipe.root, data.read_options)
    if files is None:
        return open_whole(recipe)
    with _lock:
        _opened_files[_unread(data)] = files
    return files.undecoded(data.read_options)


def _unread(data: Data) -> Data:
    """A [data] table without what does not change the headers of files."""
    return data.model_copy(update={"size": None, "fit": "crop", "max_count": 0})


def note_same_images(data: Data, other: Data) -> None:
    """Remember that two [data] tables read the same images, so that they are read once."""
    _same_images[data] = other


def clear_data_cache() -> None:
    """Forget the open data sets. Files may change between two calls in one process."""
    with _lock:
        _cached_dataset.cache_clear()
        _same_images.clear()
        _decoded.clear()
        _opened_files.clear()


@lru_cache(maxsize=4)
def _cached_dataset(data: Data, root: str, split: float) -> Dataset:
    if split:
        return hold_out(_cached_dataset(data, root, 0.0), split)
    whole = _decoded.get((data.model_copy(update={"max_count": 0}), root)) if data.max_count else None
    if whole is not None and not whole.train.streamed:
        return limit_classes(whole, data.max_count)
    files = _opened_files.pop(_unread(data), None)
    dataset = files.dataset(data.read_options) if files else open_dataset(data.spec, root, data.read_options)
    _decoded[data, root] = dataset
    return dataset


def has_test(dataset: Dataset) -> bool:
    """Whether there is a test split, rather than the training split in its place."""
    return dataset.test is not dataset.train


def with_test_split(dataset: Dataset, recipe: Recipe) -> Dataset:
    """Data without a test split: evaluated on the held-out images, or on the training images if none are held out.

    A remark says which; it goes into the result and the report.
    """
    if dataset.val:
        fitted_stages = stages_needing_held_out(recipe, dataset)
        fitted = f"temperature and {', '.join(fitted_stages)} were" if fitted_stages else "temperature was"
        compared = ", and stages are compared" if recipe.selection.stage == "best" and recipe.stage2 else ""
        return _remarked(
            replace(dataset, test=dataset.val),
            f"There is no test split: every figure is measured on the {len(dataset.val):,} held-out images, on which "
            f"the {fitted} fitted too{compared}.",
        )
    if recipe.selection.pick == "best":
        raise UsageError(
            'selection.pick = "best" needs held-out images, and there are none; give more images, set selection.split '
            "(validation_fraction), or leave selection.pick out"
        )
    training = "every figure is measured on the training images, and does not say how well the model generalises"
    return _remarked(replace(dataset, test=dataset.train), f"No image was held out: {training}.")


def _remarked(dataset: Dataset, remark: str) -> Dataset:
    return replace(dataset, remarks=(*dataset.remarks, remark))
