"""A trained model in a file that other programs read, written only if it says what the original says."""

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.data import Split
from tailcloud.errors import TailcloudError, UsageError, plugin_sentence, unknown
from tailcloud.files import write_atomically
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile, read_model_file
from tailcloud.serving.formats import FORMATS, Format, Predictor
from tailcloud.serving.load import MODEL_FILE, load
from tailcloud.serving.portable import PortableClassifier, image_shape

TOLERANCE = 1e-3  # of a probability; rounding makes some 1e-6, a mistake far more
IMAGES = 256
PIXELS = IMAGES * 64 * 64  # fewer images where they are large
BATCHES = (1, 2, 7, 32)

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Export:
    """What was written, and how far its probabilities are from the original's at most."""

    file: Path
    bytes: int
    shape: tuple[int, int, int]
    classes: int
    difference: float
    images: int
    checker: str


def export_run(
    run: Path, to: str, out: Path | None = None, images: Images | None = None, *, force: bool = False
) -> Export:
    """Write the model of a run folder as ``FORMATS[to]``, by default into that folder.

    ``images`` (uint8 [N, H, W, C], at the size of the model) are what it is compared on; random ones where there are
    none. Nothing is written unless all probabilities agree to 0.001; a file that is there is replaced with ``force``.
    """
    form = format_of(to)
    model, about = load(run), read_model_file(run / MODEL_FILE)
    target = check_target(run, out or run / form.file, force=force)
    shown = sample_images(image_shape(about), images)
    content = _encoded(run, to, PortableClassifier(model.classifier, about), about)

    def original(batch: Images) -> NDArray[np.float32]:
        said: NDArray[np.float32] = model.predict_proba(torch.from_numpy(batch)).numpy()
        return said

    difference = largest_difference(original, form.open(content), shown)
    if not difference <= TOLERANCE:  # NaN is no agreement either
        raise TailcloudError(
            f"{run} was not exported: in {form.checker} a probability differs by {difference:.2g} from the original, "
            f"and no more than {TOLERANCE:g} is allowed; try another format ({', '.join(sorted(FORMATS))})"
        )
    write_atomically(target, content)
    return Export(
        target, len(content), image_shape(about), about.architecture.classes, difference, len(shown), _checker(form)
    )


def format_of(to: str) -> Format:
    """The format of that name; a sentence if there is none, or if a package is missing that it needs."""
    if to not in FORMATS:
        raise unknown("export format", to, [*FORMATS, "card"])
    missing = [name for name in FORMATS[to].needs if not _installed(name)]
    if missing:
        raise TailcloudError(
            f"--to {to} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            f"run: pip install {' '.join(missing)}"
        )
    return FORMATS[to]


def check_target(run: Path, target: Path, *, force: bool) -> Path:
    """Where a file may be written without destroying anything: with ``force`` over another one, not over the run's."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder; name a file with --out")
    own = (path.resolve() for path in vars(RunFolder(run)).values() if path != run)
    if any(target.resolve().is_relative_to(path) for path in own):
        raise UsageError(f"{target} belongs to the run itself and is never replaced; choose another file with --out")
    if os.path.lexists(target) and not force:
        raise UsageError(f"{target} is there already; add --force to replace it, or choose another file with --out")
    return target


def sample_images(shape: tuple[int, int, int], images: Images | None = None) -> Images:
    """Up to 256 of the images, spread evenly; or so many random ones."""
    most = max(3, min(IMAGES, PIXELS // (shape[0] * shape[1])))
    if images is None:
        return np.random.default_rng(0).integers(0, 256, (most, *shape), dtype=np.uint8)
    positions = np.linspace(0, len(images) - 1, min(most, len(images))).astype(np.int64)
    return np.ascontiguousarray(images[positions])


def sample_split(split: Split) -> Images:
    """As many images of a part as a check may want; only these are read, where they are in files."""
    found, _ = split.some(np.linspace(0, len(split) - 1, min(IMAGES, len(split))).astype(np.int64))
    if not len(found):
        raise TailcloudError(f"none of {min(IMAGES, len(split))} test images can be read")
    return found


def largest_difference(one: Predictor, other: Predictor, images: Images) -> float:
    """The largest difference of a probability, over batches of several sizes; NaN where one of them says NaN."""
    return float(np.max([np.abs(one(batch) - other(batch)).max() for batch in batches(images)]))


def batches(images: Images) -> Iterator[Images]:
    """Batches of 1, 2, 7 and then 32 images."""
    start, sizes = 0, iter(BATCHES)
    while start < len(images):
        size = next(sizes, BATCHES[-1])
        yield images[start : start + size]
        start += size


def _encoded(run: Path, to: str, model: PortableClassifier, about: ModelFile) -> bytes:
    try:
        return FORMATS[to].encode(model, about)
    except Exception as error:  # of three packages, none of which says what it raises
        said = plugin_sentence(error) or _root(error)
        parts = f'backbone "{about.architecture.backbone}" and head "{about.architecture.head}"'
        raise TailcloudError(
            f"{run}, with {parts}, cannot be written as {to} ({said}); --to safetensors takes every model"
        ) from error


def _root(error: BaseException) -> str:
    """The first line of the error that caused all others."""
    while error.__cause__:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _checker(form: Format) -> str:
    version = getattr(importlib.import_module(form.checker), "__version__", torch.__version__)
    return f"{form.checker} {version}"
