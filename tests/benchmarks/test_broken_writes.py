"""Every write of a run, broken: a bounded version of benchmarks/broken_writes.py, and its disk by itself."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import broken_writes
import pytest
from broken_writes import FAULTS, PARTS, Outcome
from faulty_disk import Fault, FaultyDisk, digest

from tailcloud.files import write_atomically

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are found in /proc")

RECORD = Path(broken_writes.__file__).parent / "results" / "broken-writes.json"
FULL = Fault(errno.ENOSPC, lasts=True)


@pytest.mark.slow
def test_a_full_disk_at_any_write_ends_in_a_sentence_and_the_run_goes_on(tmp_path):
    words = ["--part", "train", "--fault", "full", "--every", "4", "--write", str(tmp_path / "record.json")]
    done = subprocess.run([sys.executable, broken_writes.__file__, *words], capture_output=True, text=True, check=True)
    record = json.loads((tmp_path / "record.json").read_text())
    (part,) = record["parts"]
    assert part["defects"] == [], done.stdout
    assert record["files_not_seen"] == 0
    assert part["calls"] > 50
    assert part["cases"] == part["sentence"] == part["then same bytes"] >= 15


def test_the_record_has_every_part_and_fault_and_nothing_wrong():
    record = json.loads(RECORD.read_text())
    parts = {part["part"]: part for part in record["parts"]}
    assert record["files_not_seen"] == 0
    assert all(part["defects"] == [] for part in parts.values())
    complete = {name for name, part in parts.items() if part["faults"] == list(FAULTS) and part["every"] == 1}
    assert complete >= {"train", "report", "predict", "export safetensors", "export card"}
    assert parts.keys() <= PARTS.keys()


def naive(path, content):
    """What no program should do."""
    with path.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def broken(tmp_path, fault, number, write=naive):
    """The error, and the disk, of a write whose n-th call fails."""
    disk = FaultyDisk(tmp_path, fault, number)
    with disk.installed(), pytest.raises(OSError, match=os.strerror(fault.error)):
        write(tmp_path / "file", "content")
    return disk


def test_each_call_that_writes_is_counted_once(tmp_path):
    disk = FaultyDisk(tmp_path)
    with disk.installed():
        naive(tmp_path / "file", "content")
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").rename(tmp_path / "folder" / "other")
        (tmp_path / "folder" / "other").read_text()
        (tmp_path / "folder" / "other").unlink()
        os.close(os.open(tmp_path / "third", os.O_CREAT | os.O_WRONLY))
    kinds = [kind for kind, _ in disk.calls]
    assert kinds == ["open", "write", "fsync", "mkdir", "rename", "unlink", "open"]
    assert disk.calls[0] == ("open", "file")
    assert disk.states == {"folder/other": {digest(b"content")}}


def test_what_is_elsewhere_is_not_counted(tmp_path):
    (tmp_path / "home").mkdir()
    disk = FaultyDisk(tmp_path / "home", FULL, 0)
    with disk.installed():
        naive(tmp_path / "file", "content")
    assert disk.calls == []


def test_a_write_that_fails_has_written_half(tmp_path):
    broken(tmp_path, Fault(errno.EIO), 1)
    assert "content".startswith((tmp_path / "file").read_text()[:3])
    assert (tmp_path / "file").read_text() != "content"


def test_a_full_disk_stays_full_but_deletes(tmp_path):
    (tmp_path / "old").write_text("")
    disk = FaultyDisk(tmp_path, FULL, 0)
    with disk.installed():
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                (tmp_path / "new").mkdir()
        (tmp_path / "old").unlink()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_read_only_disk_deletes_nothing(tmp_path):
    (tmp_path / "old").write_text("")
    disk = FaultyDisk(tmp_path, Fault(errno.EROFS, lasts=True), 0)
    with disk.installed():
        for _ in range(2):
            with pytest.raises(OSError, match="Read-only"):
                (tmp_path / "old").unlink()
    assert (tmp_path / "old").exists()


@pytest.mark.parametrize("number", range(4))
def test_an_atomic_file_is_whole_or_absent_whatever_fails(number, tmp_path):
    (tmp_path / "file").write_text("before")
    broken(tmp_path, Fault(errno.EIO), number, write_atomically)
    assert (tmp_path / "file").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_sentence_is_a_defect():
    assert Outcome(1, "error: the disk is full\n").defects() == []
    assert Outcome(0, "").defects() == []
    for status, said in ((1, "Traceback …"), (1, ""), (1, "error: a\nerror: b\n"), (-11, ""), (None, "")):
        assert len(Outcome(status, said).defects()) == 1
    assert Outcome(1, "error: this should not have happened").defects()


def test_a_digest_leaves_out_the_order_of_metadata():
    first, second = (
        len(text).to_bytes(8, "little") + text + b"tensors"
        for text in (b'{"__metadata__":{"a":"1","b":"2"}}', b'{"__metadata__":{"b":"2","a":"1"}}')
    )
    assert digest(first) == digest(second) != digest(first[:-1])
