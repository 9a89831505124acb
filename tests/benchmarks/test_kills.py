"""Killed commands lose nothing: a bounded version of benchmarks/kills.py, and whether its checks can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kill_checks
import kill_commands
import kill_hooks
import kills
import kills_table
import pytest
from kill_commands import Clock
from kill_scenarios import SCENARIOS
from safetensors.numpy import save_file

from tailcloud.files import TEMPORARY

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "kills.json"


@pytest.mark.slow
def test_ten_kills_lose_nothing(tmp_path):
    words = ["--kills", "10", "--only", "decoders", "--lanes", "1", "--write", str(tmp_path / "kills.json")]
    command = [sys.executable, kills.__file__, "--scratch", str(tmp_path / "scratch"), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "kills.json").read_text())
    assert record["kills"] >= 10
    assert record["errors_of_the_script"] == 0, (tmp_path / "scratch" / "lane0.jsonl").read_text()
    assert record["problems"] == []
    assert {count["target"] for count in record["counts"]} == {"process", "decoder"}
    assert record["kills"] == sum(count["kills"] for count in record["counts"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", '{"format": 1, "top1"'),
        ("log.jsonl", '{"epoch": 1}\n{"epo\n{"epoch": 3}\n'),
        ("recipe.toml", "format = "),
        ("report.html", "<html><body>"),
        ("suspects.csv", "path,label\ncat/1.png\n"),
        ("predictions.csv", "path,label\ncat/1.png,ca"),
        ("model.safetensors", "cut"),
        ("checkpoint/stage1-0000001.safetensors", "cut"),
        ("model.pt2", "cut"),
        ("model-card.md", "# A mod"),
    ],
)
def test_a_cut_file_is_found(name, content, tmp_path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert [found.split()[0] for found in kill_checks.broken_files(tmp_path)] == [name]
    file.rename(file.with_name(f"{TEMPORARY}{'0a' * 16}"))
    assert list(kill_checks.broken_files(tmp_path)) == []


def test_the_last_line_of_a_log_may_be_cut(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"epoch": 1}\n{"epo')
    assert list(kill_checks.broken_files(tmp_path)) == []


def a_run(folder, weight):
    folder.mkdir()
    save_file({"weight": weight}, folder / "model.safetensors")
    (folder / "log.jsonl").write_text(json.dumps({"epoch": 1, "loss": 1.0, "seconds": weight.sum().item()}) + "\n")


def test_other_weights_other_epochs_and_other_files_are_found(tmp_path):
    import numpy as np

    a_run(tmp_path / "one", np.ones(3))
    a_run(tmp_path / "other", np.full(3, 2.0))
    one, other = (kill_checks.fingerprint(tmp_path / name) for name in ("one", "other"))
    assert kill_checks.differences(one, one) == []
    assert kill_checks.differences(other, one) == ["model.safetensors differs (sha256)"]
    (tmp_path / "other" / "log.jsonl").write_text("")
    (tmp_path / "other" / "model.safetensors").rename(tmp_path / "other" / "more.txt")
    other = kill_checks.fingerprint(tmp_path / "other")
    assert kill_checks.differences(other, one) == [
        "model.safetensors is missing",
        "more.txt is one too many",
        "log.jsonl differs (logs)",
    ]


def test_a_stopped_process_does_not_age(monkeypatch):
    times = iter([0.0, 0.5, 600.5, 600.7])
    monkeypatch.setattr(kill_commands.time, "monotonic", lambda: next(times))
    clock = Clock()
    assert clock.now() == 0.5
    assert clock.now() == 1.5
    assert clock.now() == pytest.approx(1.7)


def test_phases_are_read_from_stacks(tmp_path, monkeypatch):
    stack = '  File "/x/tailcloud/training/loop.py", line 1 in train_stage\n'
    monkeypatch.setattr(kill_hooks, "stack_of", lambda *_: stack)
    me = os.getpid()
    assert kill_commands.phase_of(me, [me], tmp_path, "stage 2") == "stage 2"
    stack = '  File "/x/tailcloud/runs/checkpoint.py", line 1 in save_checkpoint\n' + stack
    assert kill_commands.phase_of(me, [me], tmp_path, "stage 2") == "saving a checkpoint"
    stack = ""
    assert kill_commands.phase_of(me, [me], tmp_path, "stage 2") == "start-up"
    (tmp_path / str(me)).touch()
    assert kill_commands.phase_of(me, [me], tmp_path, "stage 2") == kill_commands.END


def test_what_an_older_commit_went_through_is_counted_apart():
    kill = {"kind": "kill", "scenario": "digits", "phase": "stage 1", "signal": "SIGKILL", "target": "process"}
    chain = {"kind": "chain", "scenario": "digits", "seed": 4, "lives": 3, "disk_failures": 0, "slowest_end": 0.1}
    kill, chain = ({"seed": 4, "lane": 0, **line} for line in (kill, chain))
    lines = [
        kill | {"commit": "old", "launcher": "forked"},
        chain | {"commit": "old", "problems": ["lost\nand more"]},
        kill | {"commit": "new", "launcher": "shell"},
        chain | {"commit": "new", "problems": []},
    ]
    found = kills.summary(lines, "new")
    assert (found["kills"], found["chains"], found["failures"], found["commands"]) == (1, 1, 0, 3)
    assert found["scenarios"]["digits"]["seeds"] == [4]
    lost = {"scenario": "digits", "seed": 4, "commit": "old", "problems": ["lost"]}
    assert found["before_the_last_mending"] == {"kills": 1, "chains": 1, "failures": 1, "found": [lost]}
    assert kills.summary(lines, "old")["failures"] == 1
    void = {"kind": "void", "scenario": "digits", "seed": 4, "lane": 0, "commit": "new", "why": "a slip"}
    found = kills.summary([*lines, void], "new")
    assert (found["kills"], found["chains"]) == (0, 0)
    assert found["void"] == [{"scenario": "digits", "seed": 4, "why": "a slip"}]


def test_shares_are_percent():
    assert sum(scenario.share for scenario in SCENARIOS.values()) == 100


def test_the_record_has_no_failure_and_kills_everywhere():
    record = json.loads(RECORD.read_text())
    assert record["failures"] == 0
    assert record["problems"] == []
    assert record["kills"] == sum(count["kills"] for count in record["counts"]) >= 500
    assert {count["scenario"] for count in record["counts"]} == SCENARIOS.keys()
    targets = {target for scenario in SCENARIOS.values() for target, _ in scenario.hits}
    assert {count["target"] for count in record["counts"]} == targets
    phases = {
        "data opening",
        "cache filling",
        "embedding",
        "stage 1",
        "stage 2",
        "calibration",
        "report",
        "export",
        "review",
    }
    assert phases <= {count["phase"] for count in record["counts"]}


def test_the_table_counts_every_kill():
    record = json.loads(RECORD.read_text())
    text = "\n".join(kills_table.parts(record))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    by_scenario = [row for row in rows if len(row) == 7 and row[5].replace(",", "").isdecimal()]
    by_phase = [row for row in rows if len(row) == 5 and row[4].replace(",", "").isdecimal()]
    for table, column in ((by_scenario, 5), (by_phase, 4)):
        assert sum(int(row[column].replace(",", "")) for row in table) == record["kills"]
