"""TensorBoard: what its own reader finds in a run folder, and that it disturbs nothing."""

import subprocess
import sys

import pytest

from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights, small_recipe
from tailcloud.errors import UsageError
from tailcloud.recipe.schema import Logging
from tailcloud.runs.folder import RunFolder
from tailcloud.training import tensorboard_log
from tailcloud.training.tensorboard_log import TAGS, check_logging

WATCHED = {"logging": {"tensorboard": True}}


def read(folder):
    """{tag: [(step, value)]} as TensorBoard would draw it."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def expected(folder):
    log = RunFolder(folder).log()
    keys = [key for key in TAGS if any(line.get(key) is not None for line in log)]
    steps = list(enumerate(log, start=1))
    return {
        TAGS[key]: [(step, pytest.approx(line[key], rel=1e-6)) for step, line in steps if line.get(key) is not None]
        for key in keys
    }


def test_every_line_of_the_log_is_there_and_the_run_is_the_same(tmp_path, finished_run):
    watcher = Watcher()
    run(tmp_path / "run", small_recipe(WATCHED), watcher)
    assert read(tmp_path / "run") == expected(tmp_path / "run")
    assert len(read(tmp_path / "run")["loss/training"]) == len(watcher.lines) == 5
    assert same_weights(tmp_path / "run", finished_run)


def test_validation_has_a_curve_of_its_own(tmp_path):
    run(tmp_path / "run", small_recipe(WATCHED, {"selection": {"split": 0.2}}, name="digits-lt/ce"))
    assert read(tmp_path / "run")["accuracy/validation"] == expected(tmp_path / "run")["accuracy/validation"]


def test_a_resumed_run_takes_back_what_it_trains_again(tmp_path):
    slow = {"engine": {"checkpoint_seconds": 1000.0}}  # no checkpoint before the stage ends: all epochs come again
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(WATCHED, slow), StopAfter(2))
    run(tmp_path / "run", small_recipe(WATCHED, slow))
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2
    assert read(tmp_path / "run") == expected(tmp_path / "run")


def test_where_tensorboard_is_missing_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(tensorboard_log, "find_spec", lambda _: None)
    check_logging(Logging())
    with pytest.raises(UsageError, match=r"pip install 'tailcloud\[tensorboard\]'"):
        check_logging(Logging(tensorboard=True))


def test_runs_that_do_not_ask_for_it_do_not_load_it():
    code = "import sys, tailcloud.training.loop; print([n for n in sys.modules if n.startswith('tensorboard')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
