"""``tailcloud train`` without a recipe: choose one, say why, and go on as if it had been given."""

from typing import TYPE_CHECKING

from tailcloud.cli.console import out, say_note
from tailcloud.data import OWN, parse_spec
from tailcloud.errors import UsageError
from tailcloud.launch.run_data import note_alike, open_whole
from tailcloud.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    from tailcloud.launch.run_plan import Request


def chooses(request: "Request", recipe: Recipe) -> bool:
    """Whether a recipe is to be chosen: none is named, and the data have none of their own, or time is short."""
    if request.recipes and request.time_budget:
        raise UsageError(
            f"--time-budget chooses a recipe, and {request.recipes[0]} is one; leave out one of them, or shorten the "
            "recipe with --set stage1.epochs=N"
        )
    return not request.recipes and (parse_spec(recipe.data.spec)[0] == OWN or request.time_budget is not None)


def chosen_recipe(request: "Request", asked: Recipe) -> Recipe:
    """The recipe for what was asked for; several runs share the budget."""
    from tailcloud.auto_recipe import choose, parse_budget
    from tailcloud.training.devices import pick_device

    budget = parse_budget(request.time_budget) if request.time_budget else None
    dataset = open_whole(asked)
    runs = max(1, len(request.seeds))
    say_note("a few steps are timed, to choose a recipe …")
    choice = choose(
        dataset, pick_device(request.device), budget and budget / runs, request.overrides(), request.started
    )
    recipe = load_recipe(None, [choice.settings, *request.overrides()])
    if (recipe.data.size, recipe.data.size) == dataset.shape[:2]:
        note_alike(recipe.data, asked.data)
    out.print(f"Chosen for {dataset.spec}", markup=False, style="bold")
    for reason in choice.reasons:
        out.print(f"- {reason}", markup=False)
    return recipe
