"""How a recipe comes together: the method's fragment, the recipe file, and the settings of the command line.

Each layer overrides the one before. A resolved recipe names everything, so it is the same run again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tailcloud.errors import UsageError, unknown
from tailcloud.files import check_format
from tailcloud.recipe.library import LATER, default_recipe, find_recipe, read_toml, shipped
from tailcloud.recipe.merge import Table, merge
from tailcloud.recipe.parameter_names import check_names
from tailcloud.recipe.scale_transfer import stretched
from tailcloud.recipe.schema import Recipe
from tailcloud.recipe.validate import check_parts, complete, explain


def load_recipe(reference: str | None, settings: Sequence[Mapping[str, Any]] = ()) -> Recipe:
    """The recipe ``reference`` names, with settings laid over it, resolved and checked.

    Without a reference, the data's own recipe for GCL.
    """
    overrides: Table = {}
    for setting in settings:
        overrides = merge(overrides, setting)
    reference = reference or default_recipe(spec_of(overrides, "digits-lt"))
    file = find_recipe(reference)
    table = read_toml(file)
    if "format" in table:
        check_format(Path(str(file)), table["format"])
    if "data" not in {**table, **overrides}:
        raise UsageError(f'{reference} names no data; add a line such as data = "digits-lt"')
    return resolve(merge(table, overrides), reference)


def spec_of(table: Mapping[str, Any], otherwise: str) -> str:
    """The SPEC of the data that a table names, in short or as a table."""
    data = table.get("data")
    return str(data.get("spec", otherwise) if isinstance(data, Mapping) else data or otherwise)


def fragment_of(method: str) -> Table:
    """The settings of a method; ``FIRST+SECOND`` has the later stages of SECOND after everything else of FIRST."""
    known = shipped("methods")
    first, plus, second = method.partition("+")
    for part in [first, second] if plus else [first]:
        if part not in known:
            raise unknown("method", part, known)
    fragment = read_toml(known[first])
    if not plus:
        return fragment
    other = read_toml(known[second])
    if "stage2" not in other:
        raise UsageError(f'method "{method}": {second} has no second stage; after the + stands a method that has one')
    first_stage = {key: value for key, value in fragment.items() if key not in LATER}
    return first_stage | {key: other[key] for key in LATER if key in other}


def resolve(table: Table, name: str = "the recipe") -> Recipe:
    """A recipe table on top of its method, validated: every field, every part, every option."""
    method = table.get("method", "gcl")
    fragment = fragment_of(str(method))
    if "stage2" in table and "stage2" not in fragment:
        raise UsageError(f'{name} sets [stage2], which method "{method}" does not have; take that table out')
    if "stage3" not in fragment:
        table = with_third_stage(table, name)
    try:
        written = Recipe.model_validate(merge(fragment, {**table, "method": method}))
    except ValidationError as error:
        raise UsageError(f"{name}: {explain(error, Recipe)}") from None
    recipe = complete(written, name)
    if "+" in written.method and written.stage2:
        recipe = stretched(recipe, written.stage2.loss, name)
    check_parts(recipe, name)
    check_names(recipe, name)
    return recipe


def with_third_stage(table: Table, name: str) -> Table:
    """What a third stage behind a method that has none leaves out: it has no epochs, and the loss of the stage before.

    So it changes the head, by ``stage3.head_transform``, and trains nothing; the loss is there for its scale.
    """
    asked = table.get("stage3")
    if not isinstance(asked, Mapping):
        return table
    before = resolve({key: value for key, value in table.items() if key != "stage3"}, name)
    last = list(before.stages.values())[-1]
    usual = {"epochs": 0, "batch": last.batch, "train": "head", "loss": last.loss.model_dump()}
    return {**table, "stage3": merge(usual, asked)}
