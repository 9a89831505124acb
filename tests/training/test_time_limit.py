"""A time limit: a stage on a machine that turns slower ends in time, with its whole schedule."""

import shutil
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.runs import run, same_weights, small_recipe
from tailcloud.recipe import resolve
from tailcloud.runs.folder import RunFolder
from tailcloud.training import time_limit
from tailcloud.training.schedule import EarlyEnd, StageSchedule, learning_rates
from tailcloud.training.time_limit import StageClock, TimeLimit


def stage(**settings):
    plain = {"epochs": 10, "schedule": "cosine", "lr_interval": "step", "warmup": 0}
    return resolve({"stage1": {**plain, **settings}}).stage1


def all_rates(schedule):
    return [rate for epoch in range(schedule.epochs) for rate in schedule.rates(epoch)]


@pytest.mark.parametrize("settings", [{}, {"lr_interval": "epoch"}, {"schedule": "step", "warmup": 2}])
def test_without_an_early_end_rates_are_those_of_the_recipe(settings):
    schedule = StageSchedule(stage(**settings), 7)
    assert all_rates(schedule) == [rate for epoch in range(10) for rate in learning_rates(stage(**settings), epoch, 7)]
    assert [schedule.progress(epoch) for epoch in range(10)] == [epoch / 10 for epoch in range(10)]


@given(done=st.integers(0, 69), more=st.integers(1, 80), again=st.integers(0, 70), last=st.integers(1, 80))
def test_a_shortened_schedule_goes_on_where_it_is_and_reaches_its_end(done, more, again, last):
    plan = StageSchedule(stage(), 7)
    short = plan.ending_after(done, more)
    assert short.end == min(70, done + more)
    assert short.position(done) == done
    assert short.position(short.end) == pytest.approx(70)
    middle = min(short.end - 1, done + again)
    twice = short.ending_after(max(done, middle), last)
    assert twice.position(max(done, middle)) == pytest.approx(short.position(max(done, middle)))
    for schedule in short, twice:
        rates = all_rates(schedule)
        assert len(rates) == schedule.end
        assert all(before >= after for before, after in pairwise(rates))
        assert rates[-1] <= stage().lr
        assert 0 <= schedule.progress(schedule.epochs - 1) < 1


def test_rates_of_epochs_are_kept_for_whole_epochs_of_the_plan():
    recipe = stage(schedule="step", milestones=[0.5], lr_interval="epoch")
    rates = all_rates(StageSchedule(recipe, 4, EarlyEnd(8, 8.0, 20)))  # 40 steps were planned
    assert rates == [recipe.lr] * 13 + [pytest.approx(recipe.lr * recipe.decay)] * 7


def test_the_share_that_is_done_is_that_of_the_shortened_stage():
    half = StageSchedule(stage(), 7).ending_after(0, 35)
    assert [half.progress(epoch) for epoch in range(5)] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    ended = half.ending_after(20, 0)
    assert ended.end == 20
    assert ended.position(20) == 70


class Machine:
    """A clock, and steps that take as long as the test says."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(time_limit, "time", SimpleNamespace(time=lambda: self.now))

    def train(self, clock, pace):
        """Train a stage; ``pace`` gives the seconds of a step by its number."""
        while clock.done < clock.schedule.end:
            self.now += pace(clock.done)
            clock.done += 1
            if clock.done < clock.schedule.end:
                clock.check()
        return clock.done


@pytest.mark.parametrize(("factor", "since"), [(1.0, 0), (3.0, 0), (10.0, 300), (4.0, 100)])
def test_a_stage_ends_in_time_on_a_machine_that_turns_slower(monkeypatch, factor, since):
    machine = Machine(monkeypatch)
    limit = TimeLimit(1000 + 120, {"stage1": 100.0, "stage2": 10.0}, 10.0)
    clock = StageClock(StageSchedule(stage(epochs=20), 50), 0, "stage1", limit)  # 1,000 steps of 0.1 s
    done = machine.train(clock, lambda step: 0.1 * (factor if step >= since else 1))
    assert machine.now - 1000 <= 1.05 * 110
    assert done == 1000 if factor == 1 else done < 1000
    assert all_rates(clock.schedule)[-1] < 0.01 * stage().lr
    assert bool(clock.remark()) == bool(clock.early_end) == (factor > 1)
    if factor > 1:
        assert f"ended after {done / 50:.1f} of 20 epochs: the machine turned slower" in clock.remark()
        assert "The learning rate went through its whole schedule." in clock.remark()


def clock_of(seconds, **settings):
    """A stage of 1,000 steps in 20 epochs, for which there are so many seconds from the time 1000 on."""
    limit = TimeLimit(1000 + seconds, {"stage1": seconds}, 0.0)
    return StageClock(StageSchedule(stage(epochs=20), 50), 0, "stage1", limit, **settings)


def checked(machine, clock, steps, seconds, **settings):
    """Whether a stage has another end when so many steps more are done, so many seconds later."""
    machine.now += seconds
    clock.done += steps
    return clock.check(**settings)


def test_the_pace_is_measured_over_steps_and_half_a_second(monkeypatch):
    machine = Machine(monkeypatch)
    clock = clock_of(100)
    assert not checked(machine, clock, steps=0, seconds=5)
    assert not checked(machine, clock_of(100), steps=1, seconds=0.4)
    assert checked(machine, clock, steps=1, seconds=5)


def test_a_plan_that_is_off_by_a_second_or_a_twentieth_is_kept(monkeypatch):
    machine = Machine(monkeypatch)
    assert not checked(machine, clock_of(1000), steps=10, seconds=10.4)  # 4 % slower: 40 s too late
    machine.now = 1000
    assert checked(machine, clock_of(1000), steps=10, seconds=10.8)
    machine.now = 1000
    assert not checked(machine, clock_of(5), steps=100, seconds=0.58)  # 0.8 s too late
    machine.now = 1000
    assert checked(machine, clock_of(5), steps=100, seconds=0.8)
    machine.now = 1000
    assert not checked(machine, clock_of(100), steps=100, seconds=5)  # a fast machine trains no more than was planned


def test_a_captured_epoch_is_whole_if_another_one_fits(monkeypatch):
    machine = Machine(monkeypatch)
    clock = clock_of(100)
    assert checked(machine, clock, steps=60, seconds=39.5, whole_epochs=True)  # 60.5 s are left for 91.9 steps
    assert clock.schedule.end == 150
    machine.now = 1000
    clock = clock_of(100)
    assert checked(machine, clock, steps=50, seconds=80, whole_epochs=True)  # 20 s are left for 12.5 steps
    assert clock.schedule.end == 50 + 12


def test_a_stage_that_is_late_says_by_how_much_and_that_its_schedule_is_not_done(monkeypatch):
    machine = Machine(monkeypatch)
    clock = clock_of(100)
    assert checked(machine, clock, steps=50, seconds=130)
    assert clock.schedule.end == 50
    assert clock.remark() == (
        "stage1 ended after 1.0 of 20 epochs (30.0\u00a0s too late): the machine turned slower than it was when the "
        "time budget was planned. The learning rate did not reach the end of its schedule."
    )


def test_steps_come_back_if_the_machine_is_free_again(monkeypatch):
    machine = Machine(monkeypatch)
    limit = TimeLimit(1000 + 120, {"stage1": 100.0}, 20.0)
    clock = StageClock(StageSchedule(stage(epochs=20), 50), 0, "stage1", limit)
    done = machine.train(clock, lambda step: 0.3 if 100 <= step < 200 else 0.1)
    assert 750 < done < 1000  # 600 if the plan were not changed back


def test_no_limit_changes_nothing(monkeypatch):
    machine = Machine(monkeypatch)
    clock = StageClock(StageSchedule(stage(), 5), 0, "stage1", None)
    assert machine.train(clock, lambda _: 1e6) == 50
    assert clock.remark() is None


def test_what_is_left_is_divided_as_it_was_planned(monkeypatch):
    Machine(monkeypatch)
    limit = TimeLimit(1060, {"stage1": 60.0, "stage2": 30.0}, 30.0)
    assert limit.seconds_for("stage1", 0.0) == pytest.approx(30)
    assert limit.seconds_for("stage1", 0.5) == pytest.approx(20)
    assert limit.seconds_for("stage2", 0.0) == pytest.approx(30)
    assert TimeLimit(900, {"stage1": 60.0}, 1.0).seconds_for("stage1", 0.5) == 0


def test_stages_get_a_little_time_even_if_none_is_left(monkeypatch):
    Machine(monkeypatch)
    late = TimeLimit(900, {"stage1": 60.0, "stage2": 30.0}, 30.0, least=9.0)
    assert [late.seconds_for(stage, 0.0) for stage in late.stages] == pytest.approx([6, 3])
    assert late.seconds_for("stage1", 0.5) == pytest.approx(3)
    assert late.seconds_for("stage1", 1.0) == 0
    short = TimeLimit(900, {"stage1": 4.0}, 30.0, least=9.0)
    assert short.seconds_for("stage1", 0.0) == pytest.approx(4)  # no more than was planned


def test_a_run_that_ends_early_says_so_is_whole_and_keeps_its_end_when_resumed(tmp_path):
    recipe = small_recipe({"stage1": {"epochs": 5000}, "selection": {"every": 50}})
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    result = run(whole, recipe, limit=TimeLimit(time.time() + 4, {"stage1": 20.0, "stage2": 1.0}, 1.0))
    first, second = result.stages
    assert 1 <= first.epochs < 5000
    assert second.epochs == 2
    assert any(remark.startswith("stage1 ended after ") for remark in result.remarks)
    log = RunFolder(whole).log()
    assert [line["epoch"] for line in log if line["stage"] == "stage1"] == list(range(1, first.epochs + 1))
    shutil.copytree(whole, resumed)
    for file in [resumed / "result.json", *(resumed / "checkpoint").glob("stage2-*")]:
        file.unlink()
    again = run(resumed, recipe)
    assert again.stages[0].epochs == first.epochs
    assert same_weights(whole, resumed)
