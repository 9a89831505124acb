"""Images that cannot be read while they are streamed, and processes that end: nothing is guessed, nothing is silent."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from helpers.streamed_parts import CPU, DECODERS, files, shown
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.stream import StreamImages
from tailcloud.errors import TailcloudError

COUNT = 120  # forty of each class: one is less than five per cent


def spoil_missing(path):
    path.unlink()


def spoil_truncated(path):
    path.write_bytes(path.read_bytes()[:-30])


def spoil_empty(path):
    path.write_bytes(b"")


def spoil_replaced(path):
    path.unlink()
    path.mkdir()


SPOILS = {
    "missing": (spoil_missing, "it does not exist"),
    "truncated": (spoil_truncated, "it is truncated"),
    "empty": (spoil_empty, "it is empty (0 bytes)"),
    "a folder": (spoil_replaced, "it is not a file"),
}


@pytest.mark.parametrize(("spoil", "why"), SPOILS.values(), ids=SPOILS)
def test_the_next_image_of_the_class_replaces_one_that_cannot_be_read(tmp_path, caplog, spoil, why):
    streamed, resident = files(tmp_path, COUNT)
    spoil(tmp_path / "7.png")
    part = StreamImages(streamed, CPU, DECODERS)
    expected = torch.from_numpy(resident.images)
    expected[7] = expected[8]
    with caplog.at_level(logging.WARNING):
        assert torch.equal(shown(part), expected)
        assert torch.equal(shown(part), expected)
    (record,) = caplog.records  # said once, though it was shown twice
    assert f"7.png cannot be read ({why}); the next image of its class replaces it." in record.getMessage()
    assert "1 of 120 images could not be read" in part.remarks[0]
    assert StreamImages(files(tmp_path / "sound", 6)[0], CPU, DECODERS).remarks == []


def test_the_last_of_a_class_is_followed_by_its_first(tmp_path):
    streamed, resident = files(tmp_path, COUNT)
    for number in (39, 38, 0):  # of the class of 0 … 39
        spoil_empty(tmp_path / f"{number}.png")
    found, pixels = shown(StreamImages(streamed, CPU, DECODERS)), torch.from_numpy(resident.images)
    assert torch.equal(found[38:41], pixels[[1, 1, 40]])
    assert torch.equal(found[0], pixels[1])


def test_a_file_that_is_spoilt_while_training_goes_on_is_replaced_from_then_on(tmp_path):
    streamed, resident = files(tmp_path, COUNT)
    part, pixels = StreamImages(streamed, CPU, DECODERS), torch.from_numpy(resident.images)
    assert torch.equal(shown(part), pixels)
    spoil_truncated(tmp_path / "3.png")
    assert torch.equal(shown(part)[3], pixels[4])
    spoil_missing(tmp_path / "4.png")  # what stood for another one
    assert torch.equal(shown(part)[3:5], pixels[[5, 5]])
    part.reader.substitutes.replace = None  # what is known to be unreadable is not asked for again
    assert torch.equal(shown(part)[3:5], pixels[[5, 5]])


def test_more_than_a_twentieth_of_unreadable_images_stops_the_run(tmp_path):
    streamed, _ = files(tmp_path, COUNT)
    for number in range(0, 21, 3):
        spoil_empty(tmp_path / f"{number}.png")
    with pytest.raises(TailcloudError, match=r"7 of 120 images \(6 %, more than 5 %\) cannot be read: .* and 4 more"):
        shown(StreamImages(streamed, CPU, DECODERS))


def test_a_class_without_a_readable_image_stops_the_run(tmp_path):
    streamed, _ = files(tmp_path, COUNT)
    streamed.labels[5] = 2
    streamed.labels[streamed.labels == 2] = 1
    streamed.labels[5] = 2
    spoil_missing(tmp_path / "5.png")
    with pytest.raises(TailcloudError, match="no other image of its class can; repair them, or remove the class"):
        shown(StreamImages(streamed, CPU, DECODERS))


def test_a_process_that_is_killed_is_reported_and_replaced(tmp_path):
    streamed, resident = files(tmp_path, 40)
    decoders = Decoders(1)
    part = StreamImages(streamed, CPU, decoders)
    shown(part)
    decoder = decoders.idle.get()
    decoder.process.kill()
    decoder.process.wait()
    decoders.idle.put(decoder)
    with pytest.raises(TailcloudError, match=r"a decoder process ended \(SIGKILL\)"):
        shown(part)
    assert torch.equal(shown(part), torch.from_numpy(resident.images))


SCRIPT = """
import signal, sys, time
sys.path[:0] = {paths!r}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from pathlib import Path
from helpers.streamed_parts import CPU, files
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.stream import StreamImages
from tailcloud.data.augment.normalize import Normalise
decoders = Decoders(2)
part = StreamImages(files(Path({root!r}), 40)[0], CPU, decoders)
list(part.in_order(Normalise([0.0] * 3, [1.0] * 3)))
found = [decoders.idle.get() for _ in range(2)]
print(*(decoder.process.pid for decoder in found), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them_and_say_nothing(tmp_path, signum):
    script = SCRIPT.format(paths=[path for path in sys.path if path], root=str(tmp_path / "images"))
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    for pid in children if signum == signal.SIGINT else []:
        os.kill(pid, signum)  # as a terminal would
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.1)
    assert all(alive(pid) for pid in children)
    parent.send_signal(signum)
    _, said = parent.communicate(timeout=20)
    assert "decoder" not in said
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in children)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_know_neither_pytorch_nor_a_gpu(tmp_path):
    decoders = Decoders(1)
    shown(StreamImages(files(tmp_path, 5)[0], CPU, decoders))
    decoder = decoders.idle.get()
    mapped = Path(f"/proc/{decoder.process.pid}/maps").read_text()
    assert "libtorch" not in mapped
    assert "libcuda" not in mapped
