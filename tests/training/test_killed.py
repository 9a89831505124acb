"""A run that is killed ten times ends with the same weights as one that never was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = ["model.width=0.25", "stage1.epochs=15", "stage2.epochs=7", "engine.checkpoint_seconds=0.0"]
CHAIN = Path(__file__).parents[1] / "helpers" / "kill_chain.py"


def chain(folder, kills):
    command = [sys.executable, str(CHAIN), str(folder), str(kills), "10", *SETTINGS]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_ten_deaths_in_both_stages_change_nothing(tmp_path):
    assert chain(tmp_path / "undisturbed", 0) == []
    deaths = chain(tmp_path / "killed", 10)
    assert len(deaths) == 10
    assert sum(1 <= epoch < 15 for epoch in deaths) >= 3, "stage 1 was hardly disturbed"
    assert sum(epoch >= 15 for epoch in deaths) >= 2, "stage 2 was hardly disturbed"
    undisturbed, killed = (tmp_path / name / "model.safetensors" for name in ("undisturbed", "killed"))
    assert undisturbed.read_bytes() == killed.read_bytes()
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("undisturbed", "killed")]
    assert results[0]["top1"] == results[1]["top1"]
    assert [len((tmp_path / name / "log.jsonl").read_text().splitlines()) for name in ("undisturbed", "killed")] == [
        22,
        22,
    ]
