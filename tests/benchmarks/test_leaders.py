"""Which method is ahead in what, on each data set."""

from dataclasses import replace

import leaders

from tailcloud.reporting.tables import by_dataset


def measured(method, seed, spec, **figures):
    return {
        "format": 1,
        "method": method,
        "top1": {"last": figures["top1"], "best": 99.0, "best_on": "test"},
        "many": figures["many"],
        "medium": 50.0,
        "few": figures["few"],
        "balanced_accuracy": figures["top1"],
        "ece": figures["ece"],
        "per_class": [figures["many"], 50.0],
        "dataset": {"spec": spec, "fingerprint": "0123456789abcdef", "counts": [200, 50]},
        "protocol": {"seed": seed, "selection": "last"},
        "model": {"backbone": "resnet8", "parameters": 10, "flops": 10},
        "seconds": 1.0,
        "device": "cpu",
        "version": "0.1.0",
        "machine": {},
        "commit": "abc",
        "command": "tailcloud train",
    }


def test_the_best_methods_are_named_where_there_are_several():
    results = [
        measured("ce", 0, "two", top1=60.0, many=90.0, few=None, ece=20.0),
        measured("gcl", 0, "two", top1=70.0, many=80.0, few=None, ece=5.0),
        measured("gcl", 1, "two", top1=72.0, many=82.0, few=None, ece=7.0),
        measured("ce", 0, "one", top1=50.0, many=50.0, few=10.0, ece=9.0),
    ]
    two, one = by_dataset(results)
    text = "\n".join(leaders.parts(two))
    assert list(leaders.parts(one)) == []
    ahead = (
        "highest top-1: `gcl` (71.0, 2 seeds), highest in many-shot classes: `ce` (90.0, 1 seed), lowest ECE: `gcl` "
    )
    assert f"{ahead}(6.0, 2 seeds)." in text.replace("\u00a0", " ")


def test_a_method_counts_by_its_first_row():
    usual = measured("gcl", 0, "two", top1=70.0, many=80.0, few=1.0, ece=5.0)
    other = measured("gcl", 0, "two", top1=90.0, many=95.0, few=2.0, ece=1.0) | {"device": "cuda"}
    baseline = measured("ce", 0, "two", top1=60.0, many=70.0, few=0.5, ece=9.0)
    rows = leaders.first_rows(by_dataset([usual, other, baseline])[0])
    assert [(row.method, row.summary("top1").mean) for row in rows] == [("gcl", 70.0), ("ce", 60.0)]


def test_a_variant_counts_by_its_own_name():
    usual = measured("gcl", 0, "two", top1=70.0, many=80.0, few=1.0, ece=5.0)
    better = measured("gcl", 0, "two", top1=90.0, many=95.0, few=2.0, ece=1.0)
    (one,), (other,) = (by_dataset([result])[0].rows for result in (usual, better))
    table = replace(by_dataset([usual])[0], rows=(one, replace(other, label="gcl-longer")))
    assert [leaders.name_of(row) for row in leaders.first_rows(table)] == ["gcl-longer", "gcl"]
    assert "highest top-1: `gcl-longer`" in "".join(leaders.parts(table))
