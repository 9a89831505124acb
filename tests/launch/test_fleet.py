"""Runs side by side: results in order, errors apart, every event told."""

import os
import threading
import time
import weakref
from contextlib import nullcontext

import pytest
import torch

from helpers.runs import Watcher
from tailcloud.errors import TailcloudError
from tailcloud.launch.fleet import train_on_streams, train_side_by_side


def good(observer):
    observer.note("one")
    observer.epoch_done({"epoch": 1, "seconds": 0.01})
    return {"ok": os.getpid()}


def bad(observer):
    observer.note("two")
    raise TailcloudError("this one fails")


def dead(observer):
    os._exit(1)


def test_a_failing_run_leaves_the_others_alone():
    watchers = [Watcher() for _ in range(3)]
    outcomes = train_side_by_side([good, bad, good], watchers)
    assert outcomes[0]["ok"] != os.getpid()
    assert isinstance(outcomes[1], TailcloudError)
    assert str(outcomes[1]) == "this one fails"
    assert "ok" in outcomes[2]
    assert [watcher.notes for watcher in watchers] == [["one"], ["two"], ["one"]]
    assert watchers[2].lines == [{"epoch": 1, "seconds": 0.01}]


def full_disk(observer):
    raise OSError(28, "No space left on device", "run/log.jsonl")


@pytest.mark.slow
def test_a_killed_worker_is_a_sentence_and_takes_no_other_run_with_it():
    outcomes = train_side_by_side([good, dead, good], [Watcher() for _ in range(3)])
    assert "the worker process was killed" in str(outcomes[1])
    assert "ok" in outcomes[0]
    assert "ok" in outcomes[2]


def test_what_the_system_says_becomes_a_sentence():
    outcomes = train_side_by_side([good, full_disk], [Watcher(), Watcher()])
    assert "ok" in outcomes[0]
    assert str(outcomes[1]).startswith("the disk is full: run/log.jsonl could not be written")


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


def test_ctrl_c_stops_threads_at_the_end_of_their_epoch_and_starts_no_more(streams, monkeypatch):
    started = []

    def endless(observer):
        started.append(threading.get_ident())
        for epoch in range(10_000):
            time.sleep(0.01)
            observer.epoch_done({"epoch": epoch, "seconds": 0.01})

    def interrupt(futures, timeout):
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr("tailcloud.launch.fleet.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_on_streams([endless] * 4, [Watcher() for _ in range(4)], in_flight=2)
    assert len(started) == 2
