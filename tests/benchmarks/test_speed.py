"""The speed benchmark measures what it says, whatever fails on the way."""

import json

import epoch_timing
import pytest
import speed
import torch
from epoch_timing import Clock, Enough, NotMeasured, Span, Timed, only, seconds_per_epoch, timed_fleet
from roofline import Peak
from speed_table import HEADER, aligned, baseline, cells, whole

from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    monkeypatch.setattr(speed, "peak_of", lambda *_: Peak(1e11, 1e10, "invented"))


def measured(tmp_path, *words):
    file = tmp_path / "speed.json"
    assert speed.main(["--write", str(file), "--data", "digits-lt", "--epochs", "1", *words]) == 0
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


@pytest.mark.slow
def test_runs_side_by_side_are_timed_together(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    span, recipe = Span(1, 2), only(load_recipe("digits-lt/gcl"), "stage2")
    try:
        runs = timed_fleet(recipe, open_dataset("digits-lt"), torch.device("cpu"), span, 2, tmp_path)
    finally:
        torch.set_num_threads(before)
    assert len(runs) == 2
    assert all(run.memory > 1e7 and not run.notes for run in runs)
    assert 0 < seconds_per_epoch(runs, span) < 10


def test_a_row_that_fails_says_why_and_the_next_one_is_measured(tmp_path, monkeypatch, capsys):
    real = speed.timed_fleet

    def fails_when_eager(recipe, *rest):
        if recipe.engine.executor == "eager":
            raise RuntimeError("the machine is on fire\nand so on")
        return real(recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"executor": "eager"})}), *rest)

    monkeypatch.setattr(speed, "timed_fleet", fails_when_eager)
    record = measured(tmp_path, "--only", "eager", "compiled")
    eager, compiled = record["problems"][0]["rows"]
    assert eager["reason"] == "the machine is on fire"
    assert compiled["reason"] is None
    assert "eager: not measured: the machine is on fire" in capsys.readouterr().out


def test_what_does_not_fit_into_the_time_limit_is_not_measured(tmp_path):
    record = measured(tmp_path, "--only", "eager", "--time-limit", "-1")
    assert record["problems"][0]["rows"][0]["reason"] == "it would not have fitted into the time limit"


def test_an_executor_that_ran_as_another_one_has_no_figure(tmp_path, monkeypatch):
    timed = [Timed([1.0, 2.0, 3.0], 1, ("torch.compile failed here",))]
    monkeypatch.setattr(speed, "timed_fleet", lambda *_: timed)
    record = measured(tmp_path, "--only", "compiled")
    assert record["problems"][0]["rows"][0]["reason"] == "torch.compile failed here"


def test_missing_data_is_a_sentence(tmp_path, capsys):
    assert speed.main(["--data", "cifar10-lt:100", "--root", str(tmp_path), "--write", str(tmp_path / "x.json")]) == 1
    assert "tailcloud data get cifar10" in capsys.readouterr().err


def test_a_clock_counts_only_epochs_in_which_all_runs_are_warm(tmp_path):
    first, second = (Clock(Span(warm=2, epochs=2), tmp_path, runs=2) for _ in range(2))
    for _ in range(5):
        first.epoch_done({})
    second.epoch_done({})
    second.epoch_done({})
    for one in (first, second):
        one.epoch_done({})
        with pytest.raises(Enough):
            one.epoch_done({}) or one.epoch_done({})


def test_a_clock_stops_at_the_deadline(tmp_path):
    with pytest.raises(Enough):
        Clock(Span(1, 100, deadline=0.0), tmp_path, runs=1).epoch_done({})


def test_a_run_that_fails_stops_the_others(tmp_path, monkeypatch):
    def broken(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(epoch_timing.loop, "train", broken)
    first, second = (Clock(Span(1, 100), tmp_path, runs=2) for _ in range(2))
    with pytest.raises(MemoryError):
        epoch_timing.timed_run(load_recipe("digits-lt/gcl"), None, torch.device("cpu"), first, tmp_path / "runs")
    with pytest.raises(Enough):
        second.epoch_done({})


def test_seconds_of_a_run_alone_are_the_median_after_the_warm_up():
    assert seconds_per_epoch([Timed([10.0, 11.0, 12.0, 13.0, 33.0])], Span(1, 4)) == 1.0


def test_seconds_of_a_fleet_are_shared_while_all_are_warm():
    """From 5 to 9 the first run finishes 4 epochs and the second 2."""
    runs = [Timed([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), Timed([5.0, 7.0, 9.0, 11.0])]
    assert seconds_per_epoch(runs, Span(1, 2)) == pytest.approx(4 / 6)


@pytest.mark.parametrize("ends", [[[1.0]], [[1.0, 2.0], [5.0, 6.0]]])
def test_too_little_time_gives_no_figure(ends):
    with pytest.raises(NotMeasured):
        seconds_per_epoch([Timed(one) for one in ends], Span(1, 1))


def test_one_stage_alone():
    recipe = only(load_recipe("digits-lt/gcl"), "stage2")
    assert (recipe.stage1.epochs, recipe.stage2.epochs) == (0, epoch_timing.ENDLESS)


def row(name, seconds, runs=1, reason=None):
    found = {"name": name, "runs": runs, "executor": "eager", "reason": reason}
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
    speed.merge(rows, row("eager", {"stage1": 2.0, "stage2": 1.0}))
    speed.merge(rows, row("eager", {"stage1": 1.0, "stage2": 3.0}) | {"start": 1.0, "memory": 9e8})
    speed.merge(rows, row("eager", {}, reason="tired"))
    assert rows == [row("eager", {"stage1": 1.0, "stage2": 1.0}) | {"memory": 9e8}]
