"""The table over all six data sets: measured rows, averages of seeds, published numbers."""

import beyond_table

from helpers.small_table import measured, table
from tailcloud.bench.filled_table import fill_table
from tailcloud.recipe import load_recipe

ROWS = [
    {"label": "One", "method": "ce", "other": [80.0, 50.0], "source": "the best"},
    {"label": "Two", "method": "gcl", "other": [80.0, 50.0], "source": "the best"},
    {"label": "Three", "method": "gcl", "variant": "cben", "set": ["stage2.sampler=cben"]},
]


def lines(averages=()):
    results = {
        ("ce", "digits-lt"): [measured(seed, top1) for seed, top1 in enumerate((77.0, 79.0))],
        ("gcl", "digits-lt"): [measured(0, 79.5)],
        ("gcl", "digits-lt:20"): [measured(0, 48.9)],
    }
    filled = fill_table(table(rows=ROWS), results)
    (text,) = beyond_table.parts(filled, averages)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_a_row_has_means_and_a_mark_where_it_is_more_than_a_point_below():
    header, _, one, two, best, experts = lines()
    assert header == ["", "parameters", "`digits-lt`", "`digits-lt:20`"]
    assert one == ["One", "0.46 M", "78.0 ± 1.4 ▼", "–"]
    assert two == ["Two", "0.46 M", "79.5", "48.9 ▼"]
    assert best[2:] == ["80.0", "50.0"]
    assert experts[2:] == ["–", "–"]


def test_an_average_is_a_row_of_its_own_with_its_parameters():
    recipe = load_recipe("digits-lt/gcl", [{"data": "digits-lt:20"}]).model_dump(exclude_none=True)
    model = {"parameters": 1_392_462, "members": [{"run": f"seed{seed}", "sha256": "0"} for seed in range(4)]}
    average = measured(None, 52.34, spec="digits-lt:20", recipe=recipe, model=model)
    rows = lines([average])
    assert rows[4] == ["Two: 4 networks, averaged", "1.39 M", "–", "52.3"]
    assert len(rows) == 7
    other = measured(None, 52.34, spec="digits-lt:20", recipe=recipe | {"root": "x", "method": "ce"}, model=model)
    assert len(lines([other])) == 6
