"""SIGTERM and Ctrl-C, twice too: nothing half written is left, and no traceback is printed."""

import os
import signal
import subprocess
import sys

import pytest

WORKING = """
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tailcloud import cli
from tailcloud.files import new_text_file

def work(**_):
    try:
        with new_text_file(Path("rows.csv")) as file:
            file.write("half a row")
            print("working", flush=True)
            time.sleep(60)
    finally:
        if {slow}:
            print("cleaning", flush=True)
            time.sleep(60)

if {threads}:
    ThreadPoolExecutor(1).submit(lambda: time.sleep(60))  # the process waits for it at its end
cli.app = work
cli.main()
"""


@pytest.fixture
def start(tmp_path):
    """Start a command that has begun to write a file, in a process of its own."""
    started = []

    def call(*, slow=False, threads=False):
        (tmp_path / "folder").mkdir()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-c", WORKING.format(slow=slow, threads=threads)]
        hear = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(words, cwd=tmp_path / "folder", env=environment, text=True, **pipes, **hear)
        started.append(process)
        assert process.stdout.readline() == "working\n"
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


def test_sigterm_removes_what_was_half_written(start, tmp_path):
    process = start()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (143, "")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_second_ctrl_c_during_the_clean_up_is_no_traceback(start, tmp_path):
    process = start(slow=True)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "cleaning\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "")
    assert list((tmp_path / "folder").iterdir()) == []


def test_ctrl_c_at_the_end_of_a_process_is_no_traceback(start):
    process = start(threads=True)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # it waits for its thread
        process.wait(timeout=1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "")
