"""Runs side by side: results in order, errors apart, every event told."""

import os
import signal
import sys
import threading
import time
import weakref
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from helpers.runs import Watcher
from tailcloud.errors import TailcloudError
from tailcloud.launch.fleet import After, FleetObserver, WaitingJobs, train_on_streams, train_side_by_side
from tailcloud.recipe import Stage
from tailcloud.training import signals


def good(observer):
    observer.note("one")
    observer.epoch_done({"epoch": 1, "seconds": 0.01})
    return {"ok": os.getpid()}


def bad(observer):
    observer.note("two")
    raise TailcloudError("this one fails")


def dead(observer):
    os._exit(1)


def full_disk(observer):
    raise OSError(28, "No space left on device", "run/log.jsonl")


def unforeseen(observer):
    raise RuntimeError("nobody thought of this")


def test_a_failing_run_leaves_the_others_alone():
    watchers = [Watcher() for _ in range(5)]
    outcomes = train_side_by_side([good, bad, good, full_disk, unforeseen], watchers)
    assert outcomes[0]["ok"] != os.getpid()
    assert isinstance(outcomes[1], TailcloudError)
    assert str(outcomes[1]) == "this one fails"
    assert "ok" in outcomes[2]
    assert str(outcomes[3]).startswith("the disk is full: run/log.jsonl could not be written")
    assert str(outcomes[4]).startswith("this should not have happened (RuntimeError: nobody thought of this)")
    assert [watcher.notes for watcher in watchers] == [["one"], ["two"], ["one"], [], []]
    assert watchers[2].lines == [{"epoch": 1, "seconds": 0.01}]


@pytest.mark.slow
def test_a_killed_worker_is_a_sentence_and_takes_no_other_run_with_it():
    outcomes = train_side_by_side([good, dead, good], [Watcher() for _ in range(3)])
    assert "the worker process was killed" in str(outcomes[1])
    assert "ok" in outcomes[0]
    assert "ok" in outcomes[2]


def gets_sigterm(observer):
    with signals.handle_sigterm(), signals.stop_immediately():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
    return {"stopped": signals.stop_requested()}


def test_a_worker_stops_with_its_parent_and_not_by_a_signal_of_its_own():
    outcomes = train_side_by_side([gets_sigterm, good], [Watcher(), Watcher()])
    assert outcomes[0] == {"stopped": False}
    assert "ok" in outcomes[1]


def says_its_process(path, observer):
    path.write_text(str(os.getpid()))
    return {"ok": 1}


def kills_when_idle(path, observer):
    """Kill the worker that had another job, once that has ended."""
    while not path.exists() or not path.read_text():
        time.sleep(0.02)
    time.sleep(0.5)
    os.kill(int(path.read_text()), signal.SIGKILL)
    time.sleep(0.5)
    return {"ok": 2}


def test_an_idle_worker_that_is_killed_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.launch.fleet.cores", lambda: 2)
    jobs = [partial(says_its_process, tmp_path / "idle"), partial(kills_when_idle, tmp_path / "idle"), good]
    outcomes = train_side_by_side(jobs, [Watcher() for _ in jobs], [None, None, After([1], lambda: False)])
    assert [*map(bool, outcomes)] == [True] * 3
    assert "ok" in outcomes[2]


def test_workers_import_nothing_from_the_working_directory(tmp_path, monkeypatch, new_interpreters):
    for name in ("multiprocessing", "json", "signal"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    (outcome,) = train_side_by_side([good], [Watcher()])
    assert "ok" in outcome
    assert not (tmp_path / "ran").exists()
    assert os.environ.get("PYTHONSAFEPATH") is None


@pytest.fixture
def streams(monkeypatch):
    """Streams for a machine that has none: threads are what is tested here."""
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())


def test_runs_on_one_gpu_share_a_process_and_fail_apart(streams):
    watchers = [Watcher() for _ in range(3)]
    outcomes = train_on_streams([good, bad, good], watchers, in_flight=2)
    assert outcomes[0] == outcomes[2] == {"ok": os.getpid()}
    assert str(outcomes[1]) == "this one fails"
    assert [watcher.notes for watcher in watchers] == [["one"], ["two"], ["one"]]


class Held:
    """All that a run has on the device."""


def fail_with(kind):
    """A job that fails while it handles another error."""

    def failing(everything):
        try:
            raise ValueError(everything)
        except ValueError:
            raise kind("no more") from None

    return failing


def go_round(everything):
    everything.itself = everything


@pytest.mark.parametrize("end", [fail_with(TailcloudError), fail_with(MemoryError), go_round])
def test_a_run_lets_go_of_everything_before_the_next_one_starts(streams, end):
    held, alive = [], []

    def first(observer):
        everything = Held()
        held.append(weakref.ref(everything))
        end(everything)

    def second(observer):
        alive.append(held[0]() is not None)

    train_on_streams([first, second], [Watcher(), Watcher()], in_flight=1)
    assert alive == [False]


def waits(what):
    """A job that ends when an event is set."""

    def job(observer):
        assert what.wait(20)
        return {"ok": 1}

    return job


def sets(what):
    def job(observer):
        what.set()
        return {"ok": 2}

    return job


def test_threads_take_turns_sooner_while_runs_share_a_gpu(streams):
    before = sys.getswitchinterval()
    (outcome,) = train_on_streams([lambda _: sys.getswitchinterval()], [Watcher()])
    assert outcome < before == sys.getswitchinterval()


def test_a_job_starts_as_soon_as_it_has_what_it_waits_for(streams):
    """Its parent runs on, and so does a job that nobody waits for: both end after it."""
    ran = threading.Event()
    jobs = [waits(ran), waits(ran), sets(ran)]
    after = [None, None, After([0], lambda: True)]
    assert len(train_on_streams(jobs, [Watcher() for _ in jobs], 3, after)) == 3


def test_a_job_starts_when_its_parent_has_ended_in_whatever_way(streams):
    ran = threading.Event()
    outcomes = train_on_streams(
        [bad, waits(ran), sets(ran)], [Watcher() for _ in range(3)], 3, [None, None, After([0], lambda: False)]
    )
    assert str(outcomes[0]) == "this one fails"
    assert [outcome["ok"] for outcome in outcomes[1:]] == [1, 2]


def test_an_epoch_on_features_counts_as_a_pass(streams):
    seen = []

    class Door:
        def epoch(self, run, work, *, evaluated):
            seen.append((run, work, evaluated))

    observer = FleetObserver(7, Watcher(), Door(), threading.Event())
    for what, line in (({}, {}), ({"train": "head", "views": 4}, {"val_top1": 50.0})):
        observer.stage_started("stage1", Stage.model_validate({"epochs": 1, "loss": "ce", **what}), 0)
        observer.epoch_done({"epoch": 1, "seconds": 1.0, **line})
    assert seen == [(7, 3, False), (7, 1, True)]


def test_ctrl_c_stops_threads_at_the_end_of_their_epoch_and_starts_no_more(streams, monkeypatch):
    started = []

    def endless(observer):
        started.append(threading.get_ident())
        for epoch in range(10_000):
            time.sleep(0.01)
            observer.epoch_done({"epoch": epoch, "seconds": 0.01})

    def interrupt(*_):
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr("tailcloud.launch.fleet.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_on_streams([endless] * 4, [Watcher() for _ in range(4)], in_flight=2)
    assert len(started) == 2


def test_a_job_that_needs_several_starts_after_the_last_of_them():
    waiting = WaitingJobs([None] * 3, [None, None, After([0, 1], lambda: False)])
    assert waiting.take([], 3) == [0, 1]
    assert waiting.take([1], 3) == []
    assert waiting.take([1, 0], 3) == [2]
