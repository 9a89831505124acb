"""Saving in the middle of an epoch, and ending because somebody asks for it: the run goes on where it was."""

import os
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from helpers.runs import Interrupted, Watcher, logged, run, same_weights, small_recipe
from tailcloud.backbones import BACKBONES, EfficientNetLite
from tailcloud.evaluation import predict_on_device
from tailcloud.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.training import checkpoint_policy, loop, session, signals
from tailcloud.training.distributed.world import World
from tailcloud.training.executors.eager import EagerExecutor

OFTEN = {"engine": {"checkpoint_seconds": 1e-9, "executor": "eager"}, "stage1": {"mixup": 0.4, "batch": 32}}
STEPS = 11  # an epoch
FINE_TUNING = {
    "model": {"backbone": "small_lite", "width": 1.0, "drop_path": 0.5},
    "stage1": {
        "epochs": 1,
        "mixup": 0.0,
        "optimizer": "adamw",
        "lr": 0.001,
        "schedule": "cosine",
        "lr_interval": "step",
        "warmup": 0.3,
        "layer_decay": 0.7,
        "decay_norms": False,
    },
}


def stop_before(monkeypatch, steps, act):
    """After so many steps of the executor something happens, once."""
    whole, left = EagerExecutor.train_step, [steps]

    def train_step(executor, micro_batches):
        left[0] -= 1
        if left[0] == 0:
            act()
        return whole(executor, micro_batches)

    monkeypatch.setattr(EagerExecutor, "train_step", train_step)


def pull_the_plug():
    raise Interrupted


def break_off(monkeypatch, steps, folder, recipe):
    """A run that dies before its last step is taken."""
    with monkeypatch.context() as patch:
        stop_before(patch, steps, pull_the_plug)
        with pytest.raises(Interrupted):
            run(folder, recipe)


def ask_to_end():
    os.kill(os.getpid(), signal.SIGTERM)


def newest(folder):
    return sorted((folder / "checkpoint").iterdir())[-1].name


def check_same(first, second):
    assert same_weights(first, second)
    assert logged(first) == logged(second)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nobody breaks off, and its recipe."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    recipe = small_recipe(OFTEN, {"selection": {"pick": "best"}, "stage1": {"ema": 0.9}})
    run(folder, recipe)
    return folder, recipe


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("steps", [2, STEPS, STEPS + 1, 2 * STEPS + 5, 3 * STEPS + 4])
def test_a_run_that_dies_within_an_epoch_ends_where_it_would_have_ended(tmp_path, monkeypatch, undisturbed, steps):
    whole, recipe = undisturbed
    break_off(monkeypatch, steps, tmp_path / "broken", recipe)
    within = "_" in newest(tmp_path / "broken")
    assert within == ((steps - 1) % STEPS > 0)
    resumed = run(tmp_path / "broken", recipe)
    check_same(whole, tmp_path / "broken")
    assert resumed.top1 == RunFolder(whole).result().top1


@pytest.mark.usefixtures("every_step")
def test_fine_tuning_that_dies_within_an_epoch_ends_where_it_would_have_ended(tmp_path, monkeypatch):
    """Drop path and a rate that changes every step."""
    monkeypatch.setitem(BACKBONES, "small_lite", partial(EfficientNetLite, 0.1, 0.5))
    recipe = small_recipe(OFTEN, FINE_TUNING, name="digits-lt/ce")
    run(tmp_path / "undisturbed", recipe)
    break_off(monkeypatch, 5, tmp_path / "broken", recipe)
    assert "_" in newest(tmp_path / "broken")
    run(tmp_path / "broken", recipe)
    check_same(tmp_path / "undisturbed", tmp_path / "broken")
    other = small_recipe(OFTEN, FINE_TUNING, {"model": {"drop_path": 0.0}}, name="digits-lt/ce")
    run(tmp_path / "other", other)
    assert logged(tmp_path / "other")[0]["loss"] != logged(tmp_path / "broken")[0]["loss"]
    assert (
        load_file(tmp_path / "other" / "model.safetensors").keys()
        == load_file(tmp_path / "broken" / "model.safetensors").keys()
    )
    assert "drop_path" not in (tmp_path / "broken" / "model.json").read_text()


@pytest.mark.usefixtures("every_step")
def test_an_epoch_that_is_shorter_than_the_wait_is_saved_when_it_is_done(tmp_path, monkeypatch):
    recipe = small_recipe(OFTEN, {"engine": {"checkpoint_seconds": 3600.0}})
    break_off(monkeypatch, STEPS + 5, tmp_path / "broken", recipe)
    assert not list((tmp_path / "broken").glob("checkpoint/*"))


@pytest.mark.parametrize("steps", [3, STEPS])
def test_sigterm_saves_within_an_epoch_and_the_run_goes_on(tmp_path, monkeypatch, steps):
    recipe = small_recipe(OFTEN, {"engine": {"checkpoint_seconds": 3600.0}})
    run(tmp_path / "undisturbed", recipe)
    with monkeypatch.context() as patch, signals.handle_sigterm():
        stop_before(patch, steps, ask_to_end)
        with pytest.raises(signals.Terminated, match=r"stopped by SIGTERM; continue with .*--resume --out .*broken"):
            run(tmp_path / "broken", recipe)
    assert not signals.stop_requested()
    assert (
        newest(tmp_path / "broken") == f"stage1-0000000_{steps:09d}.safetensors"
    )  # where only the figures of an epoch are missing, its steps are kept
    run(tmp_path / "broken", recipe)
    check_same(tmp_path / "undisturbed", tmp_path / "broken")


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        (2, "stage1-0000000_000000010"),
        (6, "stage1-0000002_"),  # the last epoch of the stage
        (7, "stage1-0000003"),
        (9, "stage2-0000000_"),  # its second measurement if stage 1 ended with its best epoch, else its first
    ],
)
def test_sigterm_while_a_run_measures_waits_for_no_figures(tmp_path, monkeypatch, at, kept):
    """Every epoch is measured on two parts of the data; a stage then its last epoch, and its best if another."""
    settings = {
        "selection": {"pick": "best", "split": 0.1},
        "stage1": {"ema": 0.9},
        "engine": {"checkpoint_seconds": 3600.0},
    }
    recipe = small_recipe(OFTEN, settings)
    expected = run(tmp_path / "undisturbed", recipe)
    measured = []

    def measure(*words):
        measured.append(words)
        if len(measured) == at:
            ask_to_end()
        return predict_on_device(*words)

    with monkeypatch.context() as patch, signals.handle_sigterm():
        patch.setattr(session, "predict_on_device", measure)
        with pytest.raises(signals.Terminated, match="stopped by SIGTERM"):
            run(tmp_path / "broken", recipe)
    assert len(measured) == at
    assert newest(tmp_path / "broken").startswith(kept)
    assert run(tmp_path / "broken", recipe).top1 == expected.top1
    check_same(tmp_path / "undisturbed", tmp_path / "broken")


@pytest.mark.parametrize(("seconds", "questions"), [(0.001, 3), (60.0, 17)])
def test_processes_whose_steps_are_slow_agree_after_each_of_them(monkeypatch, seconds, questions):
    asked, now = [], [0.0]

    class Two(World):
        def any(self, *flags):
            asked.append(flags)
            return flags

    monkeypatch.setattr(checkpoint_policy.time, "perf_counter", lambda: now[0])
    here = SimpleNamespace(world=Two(size=2), recipe=small_recipe({"engine": {"checkpoint_seconds": 0.0}}))
    checkpointer = checkpoint_policy.Checkpointer(here, None, None, None)
    checkpointer.epoch_started()
    for _ in range(17):
        now[0] += seconds
        checkpointer.between_steps()
    assert len(asked) == questions


def test_sigterm_before_the_first_step_waits_for_nothing(tmp_path, monkeypatch):
    recipe = small_recipe()
    with monkeypatch.context() as patch, signals.handle_sigterm():
        patch.setattr(loop, "Session", lambda *_: (ask_to_end(), pytest.fail("it went on")))
        with pytest.raises(signals.Terminated):
            run(tmp_path / "run", recipe)
    with signals.handle_sigterm():
        ask_to_end()  # between two steps it is remembered again
    run(tmp_path / "run", recipe)


@pytest.mark.parametrize("where", ["start_stage", "finish_run"])
def test_sigterm_between_stages_and_behind_the_last_waits_for_nothing(tmp_path, monkeypatch, where):
    recipe = small_recipe()
    run(tmp_path / "undisturbed", recipe)
    original, left = getattr(loop, where), [1 if where == "finish_run" else 2]

    def interrupted(*words):
        left[0] -= 1
        if left[0] == 0:
            ask_to_end()
            pytest.fail("it went on")
        return original(*words)

    with monkeypatch.context() as patch, signals.handle_sigterm():
        patch.setattr(loop, where, interrupted)
        with pytest.raises(signals.Terminated):
            run(tmp_path / "broken", recipe)
    run(tmp_path / "broken", recipe)
    check_same(tmp_path / "undisturbed", tmp_path / "broken")


@pytest.mark.usefixtures("every_step")
def test_an_epoch_that_is_left_can_be_finished_elsewhere(tmp_path, monkeypatch):
    """Another kind of device has other generators: the clouds start anew, and the run says that bits differ."""
    recipe, watcher = small_recipe(OFTEN), Watcher()
    break_off(monkeypatch, 5, tmp_path / "run", recipe)
    path = tmp_path / "run" / "checkpoint" / newest(tmp_path / "run")
    kept = load_checkpoint(path)
    elsewhere = {**kept.tensors, "standing.clouds": torch.zeros(16, dtype=torch.uint8)}  # as a GPU has it
    save_checkpoint(path.parent, "stage1", 0, Checkpoint(elsewhere, kept.state), step=4)
    run(tmp_path / "run", recipe, watcher)
    assert len(watcher.lines) == 5


PROGRAM = """
import os, signal, time
from tailcloud.training import signals
signals.REPEAT_SECONDS = 3600  # however long this process has to wait for its turn
with signals.handle_sigterm():
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.stop_requested()
    os.kill(os.getpid(), signal.SIGTERM)  # the same, said twice
    signals.REPEAT_SECONDS = 0.01
    time.sleep(0.05)
    print("alive", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
print("not reached")
"""


def test_who_insists_ends_the_process_at_once():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "alive\n", done.stderr
    assert done.returncode == -signal.SIGTERM


def test_whoever_does_not_listen_is_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    with signals.handle_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before
        with signals.handle_sigterm():  # only the outermost one ends it
            pass
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
