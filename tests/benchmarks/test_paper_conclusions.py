"""Do the paper's conclusions hold? Decided on differences seed by seed."""

from pathlib import Path

import paper_conclusions
import pytest
import render

from tailcloud.bench import read_table
from tailcloud.bench.filled_table import fill_table
from tailcloud.runs.result import parse_result

RUNS = Path(__file__).parents[2] / "benchmarks" / "results" / "runs"


def runs(*values, first=0):
    return [
        parse_result(
            {
                "format": 1,
                "method": "gcl",
                "top1": {"last": value, "best": value, "best_on": "test"},
                "per_class": [value],
                "dataset": {"spec": "cifar10-lt:100", "fingerprint": "0123", "counts": [5]},
                "protocol": {"seed": seed},
                "model": {"backbone": "resnet32"},
                "seconds": 1.0,
            }
        )
        for seed, value in enumerate(values, first)
    ]


def table_with(**rows):
    keys = {"cb": "gcl", "ib": "gcl-ib", "en": "gcl-en", "cben": "gcl-cben"}
    return fill_table(read_table("sampling"), {(keys[name], "cifar10-lt:100"): found for name, found in rows.items()})


def verdict(above, below):
    found = paper_conclusions.conclusions(table_with(cb=above, ib=below))
    return next(one for one in found if one.words == "CB is better than IB").verdict


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        (runs(80.0, 82.0, 84.0), runs(79.0, 80.9, 83.1), "holds"),  # seeds differ more than the rows do
        (runs(79.0, 80.9, 83.1), runs(80.0, 82.0, 84.0), "the other way around"),
        (runs(80.0, 82.0, 84.0), runs(79.0, 82.5, 84.0), "within the spread"),
        (runs(80.1, 82.1, 84.1), runs(80.0, 82.0, 84.0), "within the spread"),  # always, but by ten images
        (runs(80.0), runs(70.0), "open"),  # one seed
        (runs(80.0, 81.0), runs(70.0, 71.0, first=1), "open"),  # other seeds
        (runs(80.0, 81.0), [], "open"),
    ],
)
def test_a_conclusion_holds_where_the_differences_are_larger_than_their_spread(above, below, expected):
    assert verdict(above, below) == expected


def test_the_table_has_published_and_measured_points():
    text = "\n".join(paper_conclusions.parts(table_with(cb=runs(80.0, 82.0), ib=runs(78.0, 79.0))))
    assert "| CB is better than IB | +2.02 | +2.50 ± 0.71 (2\u00a0seeds) | holds |" in text
    assert "| CBEN is better than EN | +0.21 | – | open |" in text
    assert list(paper_conclusions.parts(table_with())) == []
    assert list(paper_conclusions.parts(fill_table(read_table("table1"), {}))) == []


def test_what_the_page_on_methods_says_is_what_the_records_say():
    results = render.read_results(RUNS)
    found = {
        (one.above.row.key, one.below.row.key): one.verdict
        for name in paper_conclusions.CLAIMS
        for one in paper_conclusions.conclusions(render.fill_from_records(read_table(name), results))
    }
    holds = {pair for pair, said in found.items() if said == "holds"}
    assert holds >= {("gcl-pow3-cben", "gcl-cos-cben"), ("gcl-pow3", "gcl-cos"), ("gcl", "gcl-ib")}
    assert holds >= {("gcl-cben", "gcl-stage1"), ("gcl-cben", "gcl+lws-cben"), ("gcl-cben", "gcl+tau-norm")}
    assert found["gcl-cben", "gcl-en"] == "the other way around"
    assert found["gcl-en", "gcl"] == "within the spread"
    assert found["gcl+lws-cben", "gcl-stage1"] not in {"holds", "open"}
    assert {found["gcl-cben", "gcl-pow4-cben"], found["gcl-pow4-cben", "gcl-pow3-cben"]} == {"within the spread"}
