"""The benchmark of epochs measures what it says, whatever fails on the way."""

import json

import epoch_speed
import epoch_timing
import pytest
from epoch_speed_table import HEADER, aligned, baseline, cells, whole
from epoch_timing import Clock, Enough, Span, Timed, only, seconds_per_epoch
from roofline import Peak

from tailcloud.recipe import load_recipe


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    monkeypatch.setattr(epoch_speed, "peak_of", lambda *_: Peak(1e11, 1e10, "invented"))


def measured(tmp_path, *words):
    file = tmp_path / "epochs.json"
    assert epoch_speed.main(["--write", str(file), "--data", "digits-lt", "--epochs", "1", *words]) == 0
    return json.loads(file.read_text())


def test_one_command_gives_a_table_and_a_record(tmp_path, capsys):
    record = measured(tmp_path, "--only", "eager", "no workers", "--images", "200")
    (problem,) = record["problems"]
    assert [row["name"] for row in problem["rows"]] == ["plain loop, no workers", "eager"]
    assert problem["images"] == {"train": 200, "test": 302}
    assert problem["epochs"] == {"stage1": 60, "stage2": 10}
    for row in problem["rows"]:
        assert row["reason"] is None
        assert set(row["seconds"]) == {"stage1", "stage2"}
        assert all(0 < seconds < 10 for seconds in row["seconds"].values())
        assert row["memory"] > 1e7
    assert record["machine"]["torch"]
    table = capsys.readouterr().out
    for title in HEADER[1:]:
        assert title in table
    assert "1 epochs of warm-up, 1 that count" in table


def test_a_row_that_fails_says_why_and_the_next_one_is_measured(tmp_path, monkeypatch, capsys):
    real = epoch_speed.timed_run

    def fails_when_eager(recipe, *rest):
        if recipe.engine.executor == "eager":
            raise RuntimeError("the machine is on fire\nand so on")
        return real(recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"executor": "eager"})}), *rest)

    monkeypatch.setattr(epoch_speed, "timed_run", fails_when_eager)
    record = measured(tmp_path, "--only", "eager", "compiled")
    eager, compiled = record["problems"][0]["rows"]
    assert eager["reason"] == "the machine is on fire"
    assert compiled["reason"] is None
    assert "eager: not measured: the machine is on fire" in capsys.readouterr().out


def test_an_executor_that_ran_as_another_one_has_no_figure(tmp_path, monkeypatch):
    timed = Timed([1.0, 2.0, 3.0], 1, ("torch.compile failed here",))
    monkeypatch.setattr(epoch_speed, "timed_run", lambda *_: timed)
    record = measured(tmp_path, "--only", "compiled")
    assert record["problems"][0]["rows"][0]["reason"] == "torch.compile failed here"


def test_missing_data_is_a_sentence(tmp_path, capsys):
    assert (
        epoch_speed.main(["--data", "cifar10-lt:100", "--root", str(tmp_path), "--write", str(tmp_path / "x.json")])
        == 1
    )
    assert "tailcloud data get cifar10" in capsys.readouterr().err


def test_seconds_of_a_run_alone_are_the_median_after_the_warm_up():
    assert seconds_per_epoch(Timed([10.0, 11.0, 12.0, 13.0, 33.0]), Span(1, 4)) == 1.0


def test_a_clock_stops_the_run_when_it_is_enough():
    clock = Clock(Span(warm=1, epochs=2))
    clock.epoch_done({})
    clock.epoch_done({})
    with pytest.raises(Enough):
        clock.epoch_done({})


def test_one_stage_alone():
    recipe = only(load_recipe("digits-lt/gcl", [{"selection": {"every": 5}}]), "stage2")
    assert recipe.selection.every == 1
    assert (recipe.stage1.epochs, recipe.stage2.epochs) == (0, epoch_timing.ENDLESS)


def row(name, seconds, reason=None):
    found = {"name": name, "executor": "eager", "reason": reason}
    return found if reason else found | {"seconds": seconds, "start": 3.0, "memory": 5e8}


PROBLEM = {
    "epochs": {"stage1": 10, "stage2": 2},
    "floor": {"arithmetic": 1.0, "memory": 0.5},
    "rows": [
        row("plain loop", {"stage1": 2.0, "stage2": 1.0}),
        row("plain loop, no workers", {"stage1": 1.0, "stage2": 1.0}),
        row("eager", {"stage1": 0.5, "stage2": 0.5}),
        row("graphed", {}, reason="no GPU"),
    ],
}


def test_a_table_compares_with_the_faster_obvious_loop():
    assert [whole(PROBLEM, one) for one in PROBLEM["rows"]] == [22.0, 12.0, 6.0, None]
    assert baseline(PROBLEM) == 12.0
    line = cells(PROBLEM, PROBLEM["rows"][2])
    assert line == ["eager", "0.500", "0.500", "3.0", "6.0\u00a0s", "2.00", "500", "16.7\u00a0%", "8.3\u00a0%"]


def test_a_row_without_figures_is_its_reason():
    lines = aligned([HEADER, *(cells(PROBLEM, one) for one in PROBLEM["rows"])])
    assert lines[-1].split("  ")[-1].strip() == "not measured: no GPU"
    assert len({len(line) for line in lines[:-1]}) == 1


def test_repetitions_keep_the_fastest_epochs_and_the_first_start_up():
    rows = []
    epoch_speed.merge(rows, row("eager", {"stage1": 2.0, "stage2": 1.0}))
    epoch_speed.merge(rows, row("eager", {"stage1": 1.0, "stage2": 3.0}) | {"start": 1.0, "memory": 9e8})
    epoch_speed.merge(rows, row("eager", {}, reason="tired"))
    assert rows == [row("eager", {"stage1": 1.0, "stage2": 1.0}) | {"memory": 9e8}]
