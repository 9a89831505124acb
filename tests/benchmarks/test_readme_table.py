"""The table of README.md: every figure in its column, of the runs that its row is about."""

import readme_table

from tailcloud.reporting.tables import DatasetTable, MethodRow
from tailcloud.runs.result import parse_result


def result(method, seed, spec, *, top1, few, **more):
    return parse_result(
        {
            "format": 1,
            "method": method,
            "top1": {"last": top1, "best": top1 + 9},
            "many": 99.0,
            "few": few,
            "dataset": {"spec": spec, "fingerprint": "0", "counts": [200, 5]},
            "protocol": {"seed": seed, "selection": "last"},
            **more,
        }
    )


def row(label, spec, tops, few=30.0):
    """A row of one method in some setting; its seeds have these figures."""
    method = label.removesuffix("-cosine")
    return MethodRow(label, tuple(result(method, seed, spec, top1=top1, few=few) for seed, top1 in enumerate(tops)))


def average(spec, top1, few, **recipe):
    members = [{"run": f"seed{seed}", "sha256": "0", "seed": seed} for seed in range(3)]
    return result("logit-adjust", None, spec, top1=top1, few=few, model={"members": members}, recipe=recipe)


def table(spec, *rows):
    return DatasetTable(spec, "0", tuple(rows))


TABLES = [
    table(
        "cifar100-lt:100",
        row("ce", "cifar100-lt:100", (40.0, 41.0, 42.0), few=10.0),
        row("lade", "cifar100-lt:100", (49.0,) * 4),
        row("gcl", "cifar100-lt:100", (48.0, 48.0, 48.0), few=28.0),
        row("logit-adjust-cosine", "cifar100-lt:100", (55.0,), few=33.0),
    ),
    table("cifar10-lt:50", row("gcl", "cifar10-lt:50", (85.0,) * 5), row("mislas", "cifar10-lt:50", (85.0,) * 3)),
]
AVERAGES = [average("cifar100-lt:100", 59.5, 39.5), average("cifar100-lt:100", 62.5, 42.5, distill={"teachers": ["a"]})]


def test_each_figure_stands_in_its_column_with_its_seeds_where_these_are_not_three():
    text, about, ahead = readme_table.parts(TABLES, AVERAGES)
    assert text.splitlines() == [
        "| method | CIFAR-10-LT, γ = 50 | CIFAR-100-LT, γ = 100 | few-shot classes, CIFAR-100-LT, γ = 100 |",
        "| --- | ---: | ---: | ---: |",
        "| cross-entropy | – | 41.0 ± 1.0 | 10.0 ± 0.0 |",
        "| MisLAS | 85.0 ± 0.0 | – | – |",
        "| GCL (the default) | 85.0 ± 0.0 (5 seeds) | 48.0 ± 0.0 | 28.0 ± 0.0 |",
        "| logit adjustment, AutoAugment, 400 epochs (`cifar100-lt/best`) | – | 55.0 (1 seed) | 33.0 (1 seed) |",
        "| these three as one model (`tailcloud average`, three times the parameters) | – | 59.5 | 39.5 |",
    ]
    assert "3 seeds where nothing else is said" in about
    assert ahead == "In their usual settings, above `gcl` by mean: cifar100-lt:100: `lade`."


def test_without_averages_there_is_no_row_of_them():
    text, _ = readme_table.parts(TABLES[1:], [])
    assert "three as one model" not in text
