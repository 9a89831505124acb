"""Standard streams as others leave them: closed, not UTF-8, or with a reader that leaves."""

import os
import subprocess
import sys
from contextlib import nullcontext

import pytest

from helpers.bad_inputs import SMALL
from helpers.photos import photographs
from tailcloud.cli import app, console

COMMAND = [sys.executable, "-P", "-m", "tailcloud"]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def test_characters_that_a_stream_lacks_are_written_as_escapes():
    environment = ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}
    listed = subprocess.run([*COMMAND, "data", "ls"], env=environment, capture_output=True, check=True)
    assert rb"\u03b3" in listed.stdout  # γ


READ_WITH_A_DECODER_PROCESS = """
from pathlib import Path
import numpy as np
from tailcloud.cli.standard_streams import prepare_standard_streams

prepare_standard_streams()
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.packed_names import Names

images = FileImages(Path("photos/red"), Names.of(["0.png"]), 8)
pixels = np.zeros(images.shape, np.uint8)
with Decoders(1) as decoders:
    failures = decoders.start(images, pixels, np.ones(1, np.float32)).result()
Path("read.txt").write_text(f"{failures} {pixels.any()}")
"""


def test_decoder_processes_work_although_all_streams_are_closed(tmp_path):
    """A closed stream gave its number to a socket, which the decoder process then lost to its own streams."""
    photographs(tmp_path / "photos", 0.5)
    words = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", sys.executable, "-c", READ_WITH_A_DECODER_PROCESS]
    subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, check=True)
    assert (tmp_path / "read.txt").read_text() == "{} True"


@pytest.fixture
def unread(monkeypatch):
    """A stream whose reader has left."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as stream:
        yield stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), writes)


def test_training_goes_on_when_the_reader_of_its_lines_leaves(unread, tmp_path, monkeypatch, capsys):
    for name in ("out", "errors"):
        monkeypatch.setattr(getattr(console, name), "outlives_reader", False)  # is set back after the test
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", unread)
        with pytest.raises(SystemExit) as ended:
            app(["train", "--out", str(tmp_path / "run"), *SMALL.split()])
    assert ended.value.code == 0
    assert (tmp_path / "run" / "report.html").exists()
    assert capsys.readouterr().err.count("continues without it") == 1


@pytest.mark.parametrize("outlives", [False, True])
@pytest.mark.parametrize("stderr", [False, True])
def test_a_console_without_a_reader_ends_the_command_or_is_silent(outlives, stderr, unread, monkeypatch):
    lonely = console.StreamConsole(stderr=stderr)
    lonely.outlives_reader = outlives
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr" if stderr else "stdout", unread)
        with nullcontext() if outlives else pytest.raises(SystemExit):
            lonely.print("nobody reads this")
