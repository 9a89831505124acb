"""Resolves a recipe from three layers: the method, the recipe file, and the settings of the command line.

Each layer overrides the one before. A resolved recipe has every field, so it always gives the same run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tailcloud.data import parse_spec
from tailcloud.errors import UsageError, unknown
from tailcloud.files import check_format
from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES
from tailcloud.recipe.library import (
    LATER,
    Readable,
    RecipeOnData,
    default_recipe,
    find_recipe,
    read_toml,
    shipped,
)
from tailcloud.recipe.merge import Table, merge, settings_named
from tailcloud.recipe.old_words import check_old_settings, check_old_words
from tailcloud.recipe.parameter_names import check_names
from tailcloud.recipe.schema import PartSpec, Recipe
from tailcloud.recipe.validate import check_parts, complete, explain, head_kinds, try_part


def load_recipe(reference: str | None, settings: Sequence[Mapping[str, Any]] = ()) -> Recipe:
    """The recipe that ``reference`` names, overridden by settings, resolved and checked.

    Without a reference it is the GCL recipe of the data.
    """
    try:
        return _loaded(reference, settings)
    except RecursionError:
        raise UsageError(f"{reference or 'the recipe'}: its tables, or those of --set, are nested too deeply") from None


def _loaded(reference: str | None, settings: Sequence[Mapping[str, Any]]) -> Recipe:
    overrides: Table = {}
    for setting in settings:
        overrides = merge(overrides, setting)
    check_old_settings(overrides)
    reference = reference or default_recipe(spec_of(overrides, "digits-lt"))
    file = find_recipe(reference)
    check_same_data(file, overrides)
    table = read_toml(file)
    check_old_words(table, str(file))
    if "format" in table:
        check_format(Path(str(file)), table["format"])
    if "data" not in {**table, **overrides}:
        raise UsageError(f'{reference} names no data; add a line such as data = "digits-lt"')
    with settings_named(reference, settings):
        return resolve(merge(table, overrides), reference)


def spec_of(table: Mapping[str, Any], default: str) -> str:
    """The SPEC of the data in a recipe table, in short or as a table."""
    data = table.get("data")
    return str(data.get("spec", default) if isinstance(data, Mapping) else data or default)


def check_same_data(recipe: Readable, overrides: Table) -> None:
    """Refuse a name that says the data, such as cifar10-lt:50/gcl, together with other data."""
    if not isinstance(recipe, RecipeOnData):
        return
    asked = spec_of(overrides, recipe.spec)
    if parse_spec(asked) != parse_spec(recipe.spec):
        raise UsageError(
            f'{recipe} names the data {recipe.spec}, and data = "{asked}" is set too; leave that out, or write '
            f"{recipe.name}"
        )


def fragment_of(method: str) -> Table:
    """The settings of a method; ``FIRST+SECOND`` is FIRST with the later stages of SECOND."""
    known = shipped("methods")
    first, plus, second = method.partition("+")
    for part in [first, second] if plus else [first]:
        if part not in known:
            raise unknown("method", part, known)
        check_old_words(read_toml(known[part]), str(known[part]))
    fragment = read_toml(known[first])
    if not plus:
        return fragment
    other = read_toml(known[second])
    if "stage2" not in other:
        raise UsageError(f'method "{method}": {second} has no second stage; the method after the + needs one')
    first_stage = {key: value for key, value in fragment.items() if key not in LATER}
    return first_stage | {key: other[key] for key in LATER if key in other}


def resolve(table: Table, name: str = "the recipe") -> Recipe:
    """A recipe table over its method, validated: every field, every part, every option."""
    method = table.get("method", "gcl")
    fragment = fragment_of(str(method))
    if "stage2" in table and "stage2" not in fragment:
        raise UsageError(f'{name} sets [stage2], which method "{method}" does not have; remove that table')
    if "stage3" not in fragment:
        table = with_third_stage(table, name)
    try:
        written = Recipe.model_validate(merge(fragment, {**table, "method": method}))
    except ValidationError as error:
        raise UsageError(f"{name}: {explain(error, Recipe)}") from None
    recipe = complete(written, name)
    if "+" in written.method and written.stage2:
        recipe = with_scale_of_first_stage(recipe, written.stage2.loss, name)
    check_parts(recipe, name)
    check_names(recipe, name)
    return recipe


def with_third_stage(table: Table, name: str) -> Table:
    """The defaults of a third stage after a method that has none: no epochs, and the loss of the stage before.

    So it transforms the head, by ``stage3.head_transform``, and trains nothing; of the loss it needs the scale.
    """
    third = table.get("stage3")
    if not isinstance(third, Mapping):
        return table
    before = resolve({key: value for key, value in table.items() if key != "stage3"}, name)
    last = list(before.stages.values())[-1]
    defaults = {"epochs": 0, "batch": last.batch, "train": "head", "loss": last.loss.model_dump()}
    return {**table, "stage3": merge(defaults, third)}


def with_scale_of_first_stage(recipe: Recipe, written: PartSpec, name: str) -> Recipe:
    """A complete recipe whose second stage scales cosines as its first one does, unless ``written`` sets a scale.

    ``written`` is the loss of the second stage in the recipe, before default options were filled in.
    """
    stage = recipe.stage2
    if (
        stage is None
        or "scale" in written.options
        or "scale" not in stage.loss.options
        or not has_cosines(recipe, name)
    ):
        return recipe
    scale = try_part(f"{name}: stage1.loss", recipe.stage1.loss, LOSSES).scale
    loss = PartSpec(name=stage.loss.name, **{**stage.loss.options, "scale": scale})
    return recipe.model_copy(update={"stage2": stage.model_copy(update={"loss": loss})})


def has_cosines(recipe: Recipe, name: str) -> bool:
    """Whether the outputs of the second stage's head are cosines; False for an unknown head, refused later."""
    return recipe.model.head in HEADS and HEADS[head_kinds(recipe, name)["stage2"]].cosine
