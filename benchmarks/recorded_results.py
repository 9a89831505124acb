"""Which cell of a table a recorded result belongs to: the cell with the same recipe, whatever the run is called."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tailcloud.bench.filled_table import FilledTable, fill_table
from tailcloud.bench.plan import BenchProtocol, cell_runs
from tailcloud.bench.table import TABLES, CellKey, PaperTable, TableRow, read_table
from tailcloud.errors import UsageError
from tailcloud.recipe import resolve
from tailcloud.runs.result import Result


def fill_from_records(table: PaperTable, results: Iterable[Result]) -> FilledTable:
    """The table with the results that have exactly the recipe of a cell; of several runs of a seed, the first."""
    cells = {
        (spec, text): (row.key, spec)
        for spec in table.columns
        for row in table.rows
        if (text := cell_recipe_text(row, spec)) is not None
    }
    by_cell: dict[CellKey, dict[int | None, Result]] = {}
    for result in results:
        key = cells.get((result.dataset.spec, result_recipe_text(result) or ""))
        if key is not None:
            by_cell.setdefault(key, {}).setdefault(result.protocol.seed, result)
    return fill_table(table, {key: list(by_seed.values()) for key, by_seed in by_cell.items()})


def table_variant(result: Result) -> str:
    """The variant of the table row with this result's recipe; empty for a plain method and for other recipes."""
    text = result_recipe_text(result)
    for row in (row for name in TABLES for row in read_table(name).rows if row.variant):
        if text and row.method == result.method and text == cell_recipe_text(row, result.dataset.spec):
            return row.variant
    return ""


@cache
def cell_recipe_text(row: TableRow, spec: str) -> str | None:
    """The recipe of a cell as text; None if this version cannot run it."""
    try:
        run = cell_runs(row, spec, BenchProtocol(seeds=(0,)), Path())[0]
    except UsageError:
        return None
    return recipe_text(run.recipe.training_substance())


def result_recipe_text(result: Result) -> str | None:
    """The recipe of a result as text; None if it was not recorded or is no longer valid, or if runs were averaged.

    A record may be older than some options: resolved again, it has them at their defaults, as it was run.
    """
    alone = result.recipe and not result.model.members
    return resolved_recipe_text(json.dumps(result.recipe)) if alone else None


@cache
def resolved_recipe_text(recipe: str) -> str | None:
    """A recorded recipe (JSON), resolved by this version, as text."""
    try:
        return recipe_text(resolve(json.loads(recipe)).training_substance())
    except UsageError:
        return None


def recipe_text(substance: dict[str, object]) -> str:
    """A recipe without its seed and the folders of its teachers, as text that can be compared."""
    text = {key: value for key, value in substance.items() if key != "seed"}
    distill = text.get("distill")
    if isinstance(distill, dict):
        text["distill"] = distill | {"teachers": len(distill["teachers"])}
    return json.dumps(text, sort_keys=True)
