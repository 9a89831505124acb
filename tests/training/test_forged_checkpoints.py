"""Checkpoints that somebody altered together with their digest, and pipes in their place: one sentence each."""

import os
import shutil

import pytest

from helpers.runs import Interrupted, StopAfter, run, same_weights, small_recipe
from tailcloud.errors import TailcloudError
from tailcloud.runs.checkpoint import Checkpoint, load_latest_checkpoint, read_latest_state, save_checkpoint

FORGED = {
    "stage": ["stage9", 3, None],
    "epoch": ["one", -1, 1_000_000, 1.5],
    "step": ["one", -1],
    "seconds": ["long", None],
    "best": [{}, [], 3, {"epoch": 1, "top1": "good", "on": "val", "by": 1.0}],
    "changes": [3, "text", [3]],
    "evaluated": ["all", 1.5],
    "ended": [3],
    "early_end": [3, [1, 2], ["a", 1, 2]],
    "finished": [[{}], [3], {"name": "stage1"}, [{"name": "stage2"}]],
    "environment": [[], {}, {"device": "cpu", "threads": "many"}],
    "recipe": [[], 3],
    "unknown": [1],
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    with pytest.raises(Interrupted):
        run(folder, small_recipe(), StopAfter(2))
    return folder


def forge(folder, state, tensors=None):
    found, _ = load_latest_checkpoint(folder / "checkpoint")
    shutil.rmtree(folder / "checkpoint")
    forged = Checkpoint(found.tensors if tensors is None else tensors(found.tensors), {**found.state, **state})
    save_checkpoint(folder / "checkpoint", "stage1", 2, forged)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in FORGED.items() for value in values])
def test_a_forged_state_is_refused_in_a_sentence(interrupted, key, value, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    forge(tmp_path / "run", {key: value})
    with pytest.raises(TailcloudError):
        run(tmp_path / "run", small_recipe())


def test_forged_tensors_are_refused_in_a_sentence(interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    forge(tmp_path / "run", {}, lambda tensors: {name: v for name, v in tensors.items() if name.startswith("model.")})
    with pytest.raises(TailcloudError, match="belongs to another model"):
        run(tmp_path / "run", small_recipe())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    os.mkfifo(tmp_path / "run" / "checkpoint" / "stage9-0000001.safetensors")
    assert read_latest_state(tmp_path / "run" / "checkpoint")["stage"] == "stage1"
    with pytest.raises(TailcloudError, match="a pipe or a device"):
        load_latest_checkpoint(tmp_path / "run" / "checkpoint")


def test_a_log_with_lines_of_no_epoch_is_cut_there(interrupted, finished_run, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines(keepends=True)
    foreign = '{"format": 1, "stage": "stage9", "epoch": 1}\n{"format": 1, "epoch": 2}\n'
    (tmp_path / "run" / "log.jsonl").write_text(lines[0] + foreign + lines[1])
    run(tmp_path / "run", small_recipe())
    assert same_weights(tmp_path / "run", finished_run)
    assert "stage9" not in (tmp_path / "run" / "log.jsonl").read_text()
