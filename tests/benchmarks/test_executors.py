"""The comparison of executors: it sees differences, survives failures, and knows when compiling pays."""

import importlib
from argparse import Namespace
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture
def executors(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("executors")


def world(executors, **options):
    asked = Namespace(**{"recipe": None, "root": None, "random": None} | options)
    recipe = executors.recipe_of(asked)
    small = recipe.model.model_copy(update={"backbone": "resnet8", "width": 0.25})
    return recipe.model_copy(update={"model": small}), executors.data_of(asked, recipe), CPU


@pytest.mark.filterwarnings("ignore::tailcloud.errors.TailcloudWarning")
def test_an_executor_that_does_the_same_has_no_difference(executors, monkeypatch):
    monkeypatch.setitem(executors.OTHERS, "cpu", ("eager",))
    rows = list(executors.differences(*world(executors)))
    assert [(row["name"], row["stage"]) for row in rows[:4]] == [
        ("one step", "stage1"),
        ("twenty steps", "stage1"),
        ("whole epoch", "stage1"),
        ("whole epoch", "stage1"),
    ]
    for row in rows:
        apart = max(row[kind]["absolute"] for kind in ("loss", "parameters", "momentum", "statistics"))
        assert row["same_bits"] == (apart == 0) == (row["executor"] == "eager")


def test_twenty_steps_are_twenty_and_the_last_one_is_odd(executors):
    recipe, dataset, device = world(executors)
    check = next(check for check in executors.checks(recipe, dataset, device) if check.name == "twenty steps")
    session, parts = check.begin("eager", recipe, dataset, device)
    assert parts.loader.steps == 20
    assert parts.loader.sizes[-1] < parts.loader.sizes[0]
    assert {value.dtype for value in session.model.parameters()} == {torch.float64}


def test_an_executor_that_fails_is_a_row(executors, monkeypatch, capsys):
    monkeypatch.setitem(executors.OTHERS, "cpu", ("graphed",))  # which the CPU does not have
    rows = list(executors.differences(*world(executors, recipe="cifar10-lt/ce", random=100)))
    assert all("failed" in row for row in rows if row["executor"] == "graphed")
    assert "failed: " in capsys.readouterr().out


def test_compiling_pays_when_the_steps_have_earned_it_back(executors):
    def row(executor, step, ready):
        return {"stage": "stage1", "executor": executor, "step": step, "ready_processor": ready}

    rows = [row("eager", 0.5, 1.0), row("compiled", 0.3, 21.0)]
    assert executors.break_even(rows, 1000) == pytest.approx(100 * 1000)
    assert executors.break_even([row("eager", 0.3, 0.0), row("compiled", 0.3, 9.0)], 1000) is None
    assert executors.break_even([row("eager", 0.3, 0.0), {**rows[1], "failed": "so"}], 1000) is None


def test_the_page_shows_speed_differences_and_failures(executors):
    import executors_table

    apart = {kind: {"absolute": 1e-7, "relative": 3e-6} for kind in ("loss", "parameters", "momentum", "statistics")}
    check = {"name": "one step", "stage": "stage1", "precision": "float32", "kernels": "plain"}
    record = {
        **{"recipe": "digits-lt", "method": "gcl", "data": "digits-lt", "step_flops": 2e8, "pays_from_flops": 4e13},
        "speed": [
            {"stage": "stage1", "executor": "eager", "step": 0.007, "ready": 0.1, "ready_processor": 0.1},
            {"stage": "stage1", "executor": "compiled", "failed": "it broke"},
        ],
        "differences": [
            {**check, "executor": "compiled", "same_bits": False, **apart},
            {**check, "executor": "graphed", "failed": "so did this"},
        ],
        "machine": {"gpu": None, "processor": "a processor", "torch": "2.13"},
        "commit": "abcdef1",
    }
    text = "\n".join(executors_table.parts([record]))
    assert "| stage1 | eager | 7.00 | 0.1 | 0.1 |" in text
    assert "| stage1 | compiled | failed: it broke |" in text
    assert "pays from 40\u00a0TFLOP on: 200,000 steps." in text
    assert "| one step | stage1 | float32, plain kernels | compiled | no | 3e-06 | 3e-06 | 3e-06 | 3e-06 |" in text
    assert "| one step | stage1 | float32, plain kernels | graphed | failed: so did this |" in text
