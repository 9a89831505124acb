"""A whole command is measured from start to exit, and what its logs say is added up."""

import json
import time

import pytest
import whole_command
from whole_command import LogSeconds, Sampled, log_seconds, measure, origin, python

from tailcloud.errors import TailcloudError


def write_log(folder, *seconds, stage="stage1"):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"stage": stage, "epoch": epoch, "seconds": value}) for epoch, value in enumerate(seconds, 1)]
    with (folder / "log.jsonl").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_wall_clock_covers_start_and_exit(tmp_path):
    started = time.perf_counter()
    found = measure(python("-c", "import atexit, time; atexit.register(time.sleep, 0.3)"), tmp_path / "new", "cpu")
    assert 0.3 < found.wall <= time.perf_counter() - started


def test_a_command_runs_this_checkout_with_its_variables(tmp_path):
    words = "import os, tailcloud; open('said', 'w').write(tailcloud.__file__ + os.environ['KERNELS'])"
    measure(python("-c", words), tmp_path, "cpu", {"KERNELS": "here"})
    assert (tmp_path / "said").read_text() == f"{whole_command.SOURCE}/tailcloud/__init__.pyhere"


def test_python_keeps_its_bytecode_where_it_is_told_not_to(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(whole_command, "gettempdir", lambda: str(tmp_path / "cache"))
    measure(
        python("-c", "import whole_command"),
        tmp_path,
        "cpu",
        {"PYTHONPATH": str(whole_command.SOURCE.parent / "benchmarks")},
    )
    assert list((tmp_path / "cache").rglob("whole_command.*.pyc"))


def test_a_failed_command_says_its_last_lines(tmp_path):
    with pytest.raises(TailcloudError, match=r"(?s)ended with status 3.*no such recipe"):
        measure(python("-c", "import sys; print('no such recipe'); sys.exit(3)"), tmp_path, "cpu")


def test_memory_is_that_of_all_processes_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(whole_command.SAMPLE_SECONDS, "cpu", 0.05)
    child = "import time; held = b'1' * 80_000_000; time.sleep(0.5)"
    words = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    found = measure(python("-c", words), tmp_path, "cpu")
    assert found.memory > 80_000_000


def test_memory_of_a_gpu_is_what_the_command_adds(tmp_path, monkeypatch):
    used = iter([5 << 30, 7 << 30, *[6 << 30] * 1000])
    monkeypatch.setattr(whole_command, "used_on_device", lambda: next(used))
    monkeypatch.setitem(whole_command.SAMPLE_SECONDS, "cuda", 0.01)
    assert measure(python("-c", "import time; time.sleep(0.2)"), tmp_path, "cuda").memory == 2 << 30


def test_without_a_gpu_tool_there_is_no_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(whole_command, "USED", (str(tmp_path / "no-such-tool"),))
    assert whole_command.used_on_device() is None
    with Sampled(1, "cuda") as memory:
        pass
    assert memory.most is None


def test_logs_are_added_up(tmp_path):
    write_log(tmp_path / "seed0", 1.0, 2.0)
    write_log(tmp_path / "seed1", 4.0)
    assert log_seconds(tmp_path) == LogSeconds(total=7.0, longest=4.0, epochs=3)
    assert log_seconds(tmp_path / "nothing") == LogSeconds(0.0, 0.0, 0)


def test_a_shared_first_stage_counts_once_in_the_total(tmp_path):
    write_log(tmp_path / "ce", 1.0, 2.5)
    for name, own in (("crt", 0.5), ("lws", 0.25)):
        write_log(tmp_path / name, 1.0, 2.5)
        write_log(tmp_path / name, own, stage="stage2")
    assert log_seconds(tmp_path) == LogSeconds(total=4.25, longest=4.0, epochs=4)


def test_the_origin_is_what_the_runs_recorded(tmp_path):
    (tmp_path / "seed0").mkdir()
    content = {"format": 1, "machine": {"gpu": "a GPU"}, "commit": "abc", "top1": 1}
    (tmp_path / "seed0" / "result.json").write_text(json.dumps(content))
    assert origin(tmp_path) == {"machine": {"gpu": "a GPU"}, "commit": "abc"}
