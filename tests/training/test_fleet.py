"""Runs side by side: results in order, errors apart, every event told."""

import os

from conftest import Watcher
from tailcloud.errors import TailcloudError
from tailcloud.training.fleet import train_side_by_side


def good(observer):
    observer.note("one")
    observer.epoch_done({"epoch": 1})
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
    assert watchers[2].lines == [{"epoch": 1}]


def full_disk(observer):
    raise OSError(28, "No space left on device", "run/log.jsonl")


def test_a_killed_worker_is_a_sentence_and_takes_no_other_run_with_it():
    outcomes = train_side_by_side([good, dead, good], [Watcher() for _ in range(3)])
    assert "the worker process was killed" in str(outcomes[1])
    assert "ok" in outcomes[0]
    assert "ok" in outcomes[2]


def test_what_the_system_says_becomes_a_sentence():
    outcomes = train_side_by_side([good, full_disk], [Watcher(), Watcher()])
    assert "ok" in outcomes[0]
    assert str(outcomes[1]).startswith("the disk is full: run/log.jsonl could not be written")
