"""Several processes that share a run, for real: the same batches, figures and weights as one process has."""

import os
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.ranks import in_ranks
from helpers.runs import Watcher, same_weights, small_recipe
from tailcloud.data import hold_out, open_dataset
from tailcloud.errors import SilentExit, TailcloudError, UsageError
from tailcloud.head_transforms import tuned_logit_adjust
from tailcloud.runs.folder import RunFolder
from tailcloud.training import checkpoint_policy, signals
from tailcloud.training.distributed.world import (
    SINGLE_PROCESS,
    World,
    first_line,
    is_connection_error,
    lost_rank_errors,
    rank_device,
    world_from_environment,
)
from tailcloud.training.executors.micro_batch import MicroBatchExecutor
from tailcloud.training.loop import train
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts
from tailcloud.training.stages.trainable import set_modes

CPU = torch.device("cpu")
SYNCHRONISED = {"engine": {"sync_batch_norm": True, "executor": "eager"}}


def session(world, *settings):
    recipe = small_recipe(SYNCHRONISED, *settings)
    return Session(recipe, open_dataset(recipe.data.spec, recipe.root), CPU, world)


class Doubled:
    """Images in float64."""

    def __init__(self, plain):
        self.plain = plain

    def __call__(self, images):
        return self.plain(images).double()


def losses_in(world):
    """The loss of every step of two epochs with mixup, clouds and batch norm, in float64; then what is predicted."""
    made = session(world)
    made.model.double()
    made.transform = Doubled(made.transform)
    parts = make_parts(made, "stage1")
    set_modes(made.model, made.recipe.stage1)
    losses = torch.cat([parts.executor.epoch(epoch, [0.1] * parts.loader.steps) for epoch in range(2)])
    said = made.predict(made.images.test, 30.0)
    return losses, said.confidence, said.target, made.model.state_dict()


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_train_and_predict_as_one_does(ranks):
    losses, confidence, target, weights = losses_in(SINGLE_PROCESS)
    for found in in_ranks(ranks, losses_in):
        torch.testing.assert_close(found[0], losses, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(found[1], confidence, rtol=1e-4)  # confidences are judged in float32
        assert np.array_equal(found[2], target)
        for name, value in weights.items():
            torch.testing.assert_close(found[3][name], value, rtol=1e-8, atol=1e-10)


def figures_in(world):
    made = session(world)
    return vars(made.predict(made.images.test, 30.0))


def test_shared_evaluation_has_the_very_same_figures():
    alone = figures_in(SINGLE_PROCESS)
    for found in in_ranks(3, figures_in):
        assert all(np.array_equal(found[key], alone[key]) for key in alone)


def run_in(world, folder, settings, stop_at=None):
    """A run to its end, or to a step where one process is asked to end; other processes see no folder."""
    recipe, dataset = small_recipe(SYNCHRONISED, settings), open_dataset("digits-lt", "data")
    place = RunFolder(folder if world.rank0 else folder / "not" / "here")
    if world.rank0 and not place.exists:
        place.create(recipe, "tailcloud train")
    watcher = Watcher()
    with signals.handle_sigterm():
        if stop_at:
            checkpoint_policy.STEPS_BETWEEN_CHECKS = 2
            ask_to_end_at(stop_at, world)
        try:
            result = train(recipe, dataset, place, CPU, watcher, world)
        except signals.Terminated as end:
            result = str(end)
    return result, watcher.notes, (folder / "not").exists()


def ask_to_end_at(step, world):
    """The last process is asked to end before its n-th step."""
    train_step, left = MicroBatchExecutor.train_step, [step]

    def counted(executor, micro_batches):
        left[0] -= 1
        if left[0] == 0 and world.rank == world.size - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(executor, micro_batches)

    MicroBatchExecutor.train_step = counted


def test_a_shared_run_is_the_run_of_one_process_and_goes_on_when_one_is_asked_to_end(tmp_path):
    settings = {"stage1": {"epochs": 2}, "stage2": {"epochs": 1}, "selection": {"pick": "best"}}
    alone, _, _ = run_in(SINGLE_PROCESS, tmp_path / "alone", settings)
    (whole, notes, _), (other, _, seen) = in_ranks(2, run_in, tmp_path / "whole", settings)
    assert whole.machine["ranks"] == 2
    assert whole.machine["sync_batch_norm"] is True
    assert whole.top1.last == pytest.approx(alone.top1.last, abs=3)
    assert other is None
    assert not seen
    assert notes == []
    stopped = in_ranks(2, run_in, tmp_path / "broken", settings, 9)
    assert all("stopped by SIGTERM" in end for end, _, _ in stopped)
    (name,) = (path.name for path in (tmp_path / "broken" / "checkpoint").iterdir() if "_" in path.name)
    assert name.startswith("stage1-0000001_")
    in_ranks(2, run_in, tmp_path / "broken", settings)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")
    logs = [[line["loss"] for line in RunFolder(tmp_path / folder).log()] for folder in ("whole", "broken")]
    assert logs[0] == logs[1]


def levelled_in(world, folder):
    """A run whose head is levelled: what is said, and what this process has for its shift."""
    recipe = small_recipe(
        {"stage1": {"epochs": 1}, "stage2": {"epochs": 1}, "stage3": {"head_transform": "tuned-logit-adjust"}}
    )
    place, watcher, heads = RunFolder(folder if world.rank0 else folder / "not" / "here"), Watcher(), []
    if world.rank0:
        place.create(recipe, "tailcloud train")
    measure = Session.predict

    def noted(session, *words):
        heads.append(session.model.head)
        return measure(session, *words)

    Session.predict, tuned_logit_adjust.SIGNIFICANT_GAIN = noted, -1.0  # any bias counts as significant
    train(recipe, hold_out(open_dataset("digits-lt", "data"), 0.1), place, CPU, watcher, world)
    return watcher.notes[-1], heads[-1].shift.tolist()


def test_processes_level_a_head_alike(tmp_path):
    (said, shift), (heard, other) = in_ranks(2, levelled_in, tmp_path / "run")
    assert shift == other
    assert any(shift)
    assert said == heard
    assert "33 held-out images" in said
    assert load_file(tmp_path / "run" / "model.safetensors")["head.shift"].tolist() == shift


def fail_in(world):
    """What each process hears when rank 0 fails, when all do, and what everybody has otherwise."""
    heard = []
    for work in (refuse, agree):
        try:
            work(world)
        except TailcloudError as error:
            heard.append((type(error).__name__, error.exit_code))
    return heard, world.from_rank0(lambda: "news"), world.any(world.rank == 1, False), world.gather(world.rank)


def together_in(world):
    """What each process hears when all fail alike, when one does, and when none does."""
    heard = []
    for failing in ({0, 1}, {1}, set()):
        try:
            heard.append(world.on_all_ranks(raise_usage if world.rank in failing else lambda: world.rank))
        except TailcloudError as error:
            heard.append((type(error).__name__, error.exit_code))
    return heard


def test_a_sentence_is_said_once_and_by_the_one_that_it_is_about():
    rank0, other = in_ranks(2, together_in)
    assert rank0 == [("UsageError", 2), ("SilentExit", 2), 0]
    assert other == [("SilentExit", 2), ("UsageError", 2), 1]


def refuse(world):
    world.from_rank0(raise_usage)


def agree(world):
    with world.rank0_errors():
        raise_usage()


def raise_usage():
    raise UsageError("no")


def test_only_one_process_says_what_all_of_them_know():
    rank0, other = in_ranks(2, fail_in)
    assert rank0[0] == [("UsageError", 2)] * 2
    assert other[0] == [(SilentExit.__name__, 2)] * 2
    assert rank0[1:] == other[1:] == ("news", (True, False), [0, 1])


def test_a_run_goes_on_with_another_number_of_processes_and_says_so(tmp_path):
    settings = {"stage1": {"epochs": 1}, "stage2": {"epochs": 1}}
    in_ranks(2, run_in, tmp_path / "run", settings, 3)
    result, notes, _ = run_in(SINGLE_PROCESS, tmp_path / "run", settings)
    assert result.machine["ranks"] == 1
    assert any("started with ranks 2 and continues with 1" in note for note in notes)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2 in the environment are not a rank"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK=x and WORLD_SIZE=2"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environment, message):
    with pytest.raises(UsageError, match=message):
        world_from_environment(environment)


def test_the_environment_says_who_we_are(monkeypatch):
    assert world_from_environment({}) == SINGLE_PROCESS == world_from_environment({"RANK": "0", "WORLD_SIZE": "1"})
    world = world_from_environment({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "somewhere"})
    assert (world.rank, world.size, world.local_rank, world.rank0) == (5, 8, 1, False)
    assert rank_device(world, CPU) == CPU
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UsageError, match=r"has 1 GPUs, and process 2 needs its own.*--nproc-per-node 1"):
        rank_device(world, torch.device("cuda"))


def test_words_about_lost_connections_are_known_from_others():
    gone = RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1")
    assert is_connection_error(gone)
    assert first_line(gone).startswith("Connection closed by peer")
    assert not is_connection_error(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_process_that_went_away_is_a_sentence_of_rank_0():
    gone = RuntimeError("[enforce fail at pair.cc:553] Connection reset by peer. This is typically caused by others.")
    sentence = r"another process of this run ended.*again with --resume"
    assert first_line(gone) == "Connection reset by peer"
    with pytest.raises(TailcloudError, match=sentence), lost_rank_errors(World(0, 2)):
        raise gone
    with pytest.raises(SilentExit), lost_rank_errors(World(1, 2)):
        raise gone
    with pytest.raises(RuntimeError, match="shapes"), lost_rank_errors(World(1, 2)):
        raise RuntimeError("shapes cannot be multiplied")


def features_in(world, folder):
    stage1 = {"train": "head", "views": 3, "epochs": 2}
    recipe = small_recipe({"stage1": stage1, "stage2": {"epochs": 1, "views": 3}})
    place = RunFolder(folder)
    if world.rank0:
        place.create(recipe, "tailcloud train")
    train(recipe, open_dataset(recipe.data.spec, recipe.root), place, CPU, Watcher(), world)


def test_ranks_that_train_on_features_end_where_one_process_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILCLOUD_CACHE", str(tmp_path / "cache"))
    features_in(SINGLE_PROCESS, tmp_path / "one")
    in_ranks(2, features_in, tmp_path / "two")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)
