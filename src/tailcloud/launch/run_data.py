"""The data of a recipe, opened once for all runs of a command."""

from functools import lru_cache
from threading import Lock

from tailcloud.calibration.run_calibration import check_held_out
from tailcloud.data import Dataset, hold_out, open_dataset
from tailcloud.recipe import Data, Recipe

_opening = Lock()  # runs in threads share what the first of them has opened
_read_alike: dict[Data, Data] = {}


def open_data(recipe: Recipe) -> Dataset:
    """The data of a recipe, a part of it held out where the recipe says so, and refused where it needs more of them."""
    dataset = open_whole(recipe, recipe.selection.split)
    check_held_out(recipe, dataset)
    return dataset


def open_whole(recipe: Recipe, held_out: float = 0.0) -> Dataset:
    """The data of a recipe as they are, or with a share of the training images held out."""
    with _opening:
        return _open_data(_read_alike.get(recipe.data, recipe.data), recipe.root, held_out)


def note_alike(data: Data, other: Data) -> None:
    """Remember that two ways to name data read the same images, so that they are read once."""
    _read_alike[data] = other


@lru_cache(maxsize=4)
def _open_data(data: Data, root: str, held_out: float) -> Dataset:
    if held_out:
        return hold_out(_open_data(data, root, 0.0), held_out)
    return open_dataset(data.spec, root, data.read_options)
