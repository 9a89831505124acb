"""Many files are read by processes: the same pixels, headers and sentences as by threads, and nothing left behind."""

import gc
from pathlib import Path

import numpy as np
import pytest

from helpers.drawing import draw_classes
from tailcloud.data import parallel_io
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Unreadable
from tailcloud.data.loaders import decoder_pool
from tailcloud.data.loaders.decoder_pool import Decoders, ThreadPool, end_spare_decoders, pool_for
from tailcloud.data.packed_names import Names
from tailcloud.errors import TailcloudError


@pytest.fixture
def photos(tmp_path):
    root = draw_classes(tmp_path / "photos", {"cat": 40, "lynx": 30}, size=(24, 20))
    (root / "cat" / "3.png").write_bytes(b"")
    whole = (root / "lynx" / "5.png").read_bytes()
    (root / "lynx" / "5.png").write_bytes(whole[: len(whole) // 2])
    (root / "cat" / "7.png").unlink()
    return [root / "cat" / f"{number}.png" for number in range(40)] + [
        root / "lynx" / f"{number}.png" for number in range(30)
    ]


@pytest.fixture
def processes(monkeypatch):
    """Two processes, however few the files are."""
    end_spare_decoders()
    monkeypatch.setattr(parallel_io, "pool_for", lambda _: Decoders(2))
    yield
    end_spare_decoders()


def files(paths):
    return FileImages(Path(), Names.of(map(str, paths)), 9, "pad")


def children():
    gc.collect()
    return [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]


def sentences(results):
    return {row: str(each) for row, each in enumerate(results) if isinstance(each, Unreadable)}


def test_processes_read_what_threads_read(photos, monkeypatch, tmp_path):
    end_spare_decoders()
    monkeypatch.chdir(tmp_path)
    images = files(path.relative_to(tmp_path) for path in photos)
    headers, (pixels, broken) = parallel_io.read_headers(images), parallel_io.read_images(images)
    monkeypatch.setattr(parallel_io, "pool_for", lambda _: Decoders(2))
    before = children()
    theirs, (their_pixels, their_broken) = parallel_io.read_headers(images), parallel_io.read_images(images)
    assert np.array_equal(pixels, their_pixels)
    assert [each for each in headers if not isinstance(each, Unreadable)] == [
        each for each in theirs if not isinstance(each, Unreadable)
    ]
    assert sentences(theirs) == sentences(headers)
    assert sorted(sentences(headers)) == [3, 7]
    assert {row: str(each) for row, each in their_broken.items()} == {row: str(each) for row, each in broken.items()}
    assert str(their_broken[45]) == "photos/lynx/5.png cannot be read: it is truncated"
    end_spare_decoders()
    assert children() == before


@pytest.mark.usefixtures("processes")
def test_processes_stay_for_the_next_files_until_they_are_ended(photos):
    before = children()
    parallel_io.read_headers(files(photos))
    started = children()
    assert len(started) == len(before) + 2
    parallel_io.read_images(files(photos))
    assert children() == started
    end_spare_decoders()
    assert children() == before


def test_many_files_and_cores_take_processes(monkeypatch):
    monkeypatch.setattr(decoder_pool, "automatic_workers", lambda: 16)
    monkeypatch.setattr(decoder_pool, "available_memory", lambda: 64 << 30)
    assert isinstance(pool_for(300), ThreadPool)
    assert pool_for(30_000).workers == 16
    assert pool_for(640).workers == 10
    monkeypatch.setattr(decoder_pool, "available_memory", lambda: 4 << 30)
    assert pool_for(30_000).workers == 4
    monkeypatch.setattr(decoder_pool, "automatic_workers", lambda: 1)
    assert isinstance(pool_for(30_000), ThreadPool)


@pytest.mark.usefixtures("processes")
def test_processes_import_nothing_from_the_working_folder(photos, monkeypatch, tmp_path):
    for name in ("json", "multiprocessing", "numpy", "mmap"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert not parallel_io.read_images(files(photos[10:20]))[1]
    assert not (tmp_path / "imported").exists()


@pytest.mark.usefixtures("processes")
def test_a_killed_process_is_one_sentence(photos, monkeypatch):
    monkeypatch.setattr(decoder_pool, "START", "import os; os.kill(os.getpid(), 9)")
    before = children()
    with pytest.raises(TailcloudError, match=r"^a process that reads images ended \(SIGKILL\); memory may be short: "):
        parallel_io.read_images(files(photos))
    assert children() == before


@pytest.mark.usefixtures("processes")
def test_ctrl_c_leaves_no_process(photos, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_io, "SECONDS_BETWEEN_NOTES", 0.0)
    monkeypatch.setattr(parallel_io.log, "info", interrupt)
    before = children()
    with pytest.raises(KeyboardInterrupt):
        parallel_io.read_images(files(photos))
    assert children() == before
