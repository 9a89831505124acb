"""The candidates for GCL's second stage are what their names say, whatever the method has by itself."""

from argparse import Namespace
from pathlib import Path

import pytest
from tune_second_stage import CANDIDATES, FIRST, run_of

from tailcloud.bench import BenchProtocol, filter_table, plan_bench, read_table

OPTIONS = Namespace(out=Path("runs"), root="data", epochs=None)


def told(name):
    """Head, learning rate and mixup as a name has them; what it leaves out is the released code's, without mixup."""
    kind, *more = name.split(", ")
    words = dict(part.split(" ") for part in more)
    return kind, float(words.get("lr", 0.002)), float(words.get("mixup", 0.0))


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_candidate_is_what_its_name_says(name):
    stage = run_of(OPTIONS, "cifar10-lt:100", name, 0).recipe.stage2
    assert (stage.head_transform.name, stage.lr, stage.mixup) == told(name)


def test_the_first_one_is_the_run_that_a_bench_has_in_that_folder():
    mine = run_of(OPTIONS, "cifar10-lt:100", FIRST, 0)
    table = filter_table(read_table("table1"), ["gcl", "cifar10-lt:100"])
    theirs = plan_bench(table, BenchProtocol(seeds=[0]), Path("runs")).runs[0]
    assert mine.folder.path == theirs.folder.path
    assert mine.recipe.substance() == theirs.recipe.substance()
