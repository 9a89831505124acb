"""A shared run that loses one of its processes twice ends with the same weights as one that never did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers.ranks import in_ranks
from helpers.runs import Watcher
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe, parse_setting
from tailcloud.runs.folder import RunFolder
from tailcloud.training.loop import train

SETTINGS = ["model.width=0.25", "stage1.epochs=3", "stage2.epochs=1", "stage1.batch=16"]
OFTEN = "engine.checkpoint_seconds=0.02"
CHAIN = Path(__file__).parents[1] / "helpers" / "kill_ranks.py"


def undisturbed(world, folder):
    """The same run in two processes that nobody kills."""
    recipe, place = load_recipe("digits-lt/gcl", [parse_setting(setting) for setting in SETTINGS]), RunFolder(folder)
    if world.rank0:
        place.create(recipe)
    train(recipe, open_dataset("digits-lt", "data"), place, torch.device("cpu"), Watcher(), world)


def chain(folder, kills):
    command = [sys.executable, str(CHAIN), str(folder), str(kills), "4", *SETTINGS, OFTEN]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the processes in /proc")
def test_deaths_of_one_process_change_nothing(tmp_path):
    in_ranks(2, undisturbed, tmp_path / "whole")
    assert len(chain(tmp_path / "killed", 2)) == 2
    whole, killed = (tmp_path / name / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()
