"""A request without a recipe: choose one from the data, the device and the time budget."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailcloud.data import OWN, Dataset, hold_out, parse_spec
from tailcloud.errors import UsageError
from tailcloud.launch.run_data import has_test, note_same_images, open_whole
from tailcloud.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    from tailcloud.launch.run_plan import TrainRequest

EXPECTED_SPLIT = 0.1  # held-out share that is assumed while the time of a run is estimated

logger = logging.getLogger(__name__)


def needs_choice(request: "TrainRequest", recipe: Recipe) -> bool:
    """Whether a recipe has to be chosen: none is named, and the data have none, or there is a time budget."""
    if request.recipes and request.time_budget is not None:
        raise UsageError(
            f"--time-budget chooses a recipe, and {request.names()[0]} is one; leave out one of them, or shorten the "
            "recipe with --set stage1.epochs=N"
        )
    return not request.recipes and (parse_spec(recipe.data.spec)[0] == OWN or request.time_budget is not None)


def choose_recipe(request: "TrainRequest", requested: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe for the data of a request, and the reasons for it; several runs share the time budget.

    ``requested`` is the recipe of the request as far as its settings decide it.
    """
    from tailcloud.auto_recipe import choose
    from tailcloud.training.devices import pick_device

    budget = budget_seconds(request.time_budget)
    device, overrides = pick_device(request.device), request.overrides()
    dataset = open_whole(requested, request.source)
    logger.info("a few steps are timed, to choose a recipe")
    runs = max(1, len(request.seeds))
    choice = choose(for_timing(dataset, overrides), device, budget and budget / runs, overrides, request.started)
    recipe = load_recipe(None, [choice.settings, *overrides])
    if (recipe.data.size, recipe.data.size) == dataset.shape[:2]:
        note_same_images(recipe.data, requested.data)
    return recipe, tuple(choice.reasons)


def budget_seconds(budget: str | float | None) -> float | None:
    """A time budget in seconds: of text such as "10m", or of a number."""
    from tailcloud.auto_recipe import parse_budget

    if budget is None:
        return None
    if isinstance(budget, str):
        return parse_budget(budget)
    if not budget > 0:
        raise UsageError(f'time_budget = {budget} should be more than 0 seconds, or text such as "10m"')
    return float(budget)


def for_timing(dataset: Dataset, overrides: Sequence[Mapping[str, Any]]) -> Dataset:
    """The data with about as many test images as the run will have: evaluating them is a part of its time."""
    selections = [layer["selection"] for layer in overrides if "selection" in layer]
    split = next((layer["split"] for layer in reversed(selections) if "split" in layer), None)
    if has_test(dataset) or split == 0:
        return dataset
    return replace(dataset, test=hold_out(dataset, split or EXPECTED_SPLIT).val or dataset.train)
