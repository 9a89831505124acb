"""Which cell does a result belong to? The one whose recipe it was run with, whatever it is called."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tailcloud.bench.filled_table import Filled, Place, fill
from tailcloud.bench.plan import Protocol, runs_of
from tailcloud.bench.table import TABLES, Row, Table, read_table
from tailcloud.errors import UsageError
from tailcloud.recipe import resolve
from tailcloud.runs.result import Result


def fill_from_records(table: Table, results: Iterable[Result]) -> Filled:
    """The table with those results that were run with exactly the recipe of one of its cells; a seed counts once."""
    places = {
        (spec, text): (row.key, spec)
        for spec in table.columns
        for row in table.rows
        if (text := substance_of(row, spec)) is not None
    }
    found: dict[Place, dict[int, Result]] = {}
    for result in results:
        place = places.get((result.dataset.spec, settings_of(result) or ""))
        if place is not None:
            found.setdefault(place, {}).setdefault(result.protocol.seed, result)
    return fill(table, {place: list(members.values()) for place, members in found.items()})


def variant_of(result: Result) -> str:
    """The variant under which a table has this result; empty for a method as it is, and for what is in no table."""
    mine = settings_of(result)
    for row in (row for name in TABLES for row in read_table(name).rows if row.variant):
        if mine and row.method == result.method and mine == substance_of(row, result.dataset.spec):
            return row.variant
    return ""


@cache
def substance_of(row: Row, spec: str) -> str | None:
    """Everything that decides a cell, as text; None if this version cannot run it."""
    try:
        run = runs_of(row, spec, Protocol(seeds=(0,)), Path())[0]
    except UsageError:
        return None
    return as_text(run.recipe.substance())


def settings_of(result: Result) -> str | None:
    """Everything that decided a result, as text; None if it was not recorded or is not possible any more.

    A record may be older than some options: resolved again, it has them at their defaults, as it was run.
    """
    return resolved(json.dumps(result.recipe)) if result.recipe else None


@cache
def resolved(recipe: str) -> str | None:
    """What a recorded recipe comes to today."""
    try:
        return as_text(resolve(json.loads(recipe)).substance())
    except UsageError:
        return None


def as_text(substance: dict[str, object]) -> str:
    """A recipe without its seed."""
    return json.dumps({key: value for key, value in substance.items() if key != "seed"}, sort_keys=True)
