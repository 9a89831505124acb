"""The recipe of ``tailcloud rebalance``: a finished run with the second stage of another method."""

from collections.abc import Sequence

from tailcloud.errors import UsageError
from tailcloud.recipe import Recipe, find_recipe, parse_setting, read_toml, resolve
from tailcloud.recipe.library import default_recipe
from tailcloud.recipe.merge import merge, settings_named

RESULT = "the re-balanced run"


def rebalanced(recipe: Recipe, second: str, settings: Sequence[str]) -> Recipe:
    """The recipe of a run with the second stage of another method on the same data.

    A third stage is dropped: it belongs to the second stage that is replaced. A run whose first stage was trained on
    features is re-balanced on features, unless a setting says otherwise.
    """
    table = recipe.model_dump(exclude={"stage2", "stage3"}, exclude_none=True)
    table["selection"]["stage"] = "last"
    table["method"] = f"{recipe.method.partition('+')[0]}+{second}"
    own = read_toml(find_recipe(f"{default_recipe(recipe.data.spec).partition('/')[0]}/{second}"))
    table |= {"stage2": own["stage2"]} if "stage2" in own else {}
    overrides = list(map(parse_setting, settings))
    for setting in overrides:
        if "method" in setting:
            raise UsageError(
                f"--set {setting.text} cannot be used with rebalance: the method is FIRST+SECOND, and --with names "
                "SECOND"
            )
        table = merge(table, setting)
    views = table.get("stage2", {}).get("views", recipe.stage1.views)
    with settings_named(RESULT, overrides):
        if views and resolve(table, RESULT).stage2:
            table = merge(table, {"stage2": {"views": views, "batch_norm": "frozen"}})
        return resolve(table, RESULT)
