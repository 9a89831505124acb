"""A cache of decoded images: built once and whole, shared, keyed by content, and never in the way of anybody."""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.streamed_parts import CLASSES, CPU, DECODERS, LEVELS, files, same, shown
from tailcloud.data.augment import Augment
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.cache import cached, key_of, locked
from tailcloud.data.loaders.placement import place_images
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.data.loaders.stream import StreamLoader
from tailcloud.data.packed_names import Names
from tailcloud.errors import TailcloudError
from tailcloud.sampling import make_sampler

CACHE_FILES = ["about.json", "aspects.f32", "checksums.u32", "images.u8"]


def caches(folder):
    return [place for place in folder.iterdir() if place.is_dir()]


@pytest.mark.parametrize("where", ["ram", "folder"])
def test_batches_from_a_cache_are_those_of_images_in_memory(tmp_path, where):
    streamed, resident = files(tmp_path / "images", 40)
    part = place_images(streamed, CPU, DECODERS, "ram" if where == "ram" else str(tmp_path / "cache"))
    settings = {"batch": 8, "augment": Augment(crop_padding=1, flip=True), "mixup": 1.0}
    sampler = make_sampler("cb", resident.labels, CLASSES)
    ours = StreamLoader(part, sampler, LEVELS, **settings)
    theirs = ResidentLoader(ResidentImages(resident, CPU), sampler, LEVELS, **settings)
    for number in (0, 1):
        assert all(same(one, other) for one, other in zip(ours.epoch(number), theirs.epoch(number), strict=True))


def test_aspects_are_kept(tmp_path):
    streamed, _ = files(tmp_path / "images", 5)
    from PIL import Image

    Image.new("RGB", (40, 10)).save(tmp_path / "images" / "2.png")
    reader = cached(streamed.images, streamed.labels, DECODERS, str(tmp_path / "cache"))
    assert reader.cache.aspects.tolist() == [1, 1, 4, 1, 1]


def test_a_cache_is_read_again_without_the_files_being_opened(tmp_path, monkeypatch):
    streamed, resident = files(tmp_path / "images", 20)
    place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    monkeypatch.setattr("tailcloud.data.loaders.cache._build", None)
    again = place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    assert torch.equal(shown(again), torch.from_numpy(resident.images))
    (place,) = caches(tmp_path / "cache")
    assert sorted(file.name for file in place.iterdir()) == CACHE_FILES


def test_a_file_that_changed_has_another_cache(tmp_path):
    streamed, _ = files(tmp_path / "images", 20)
    before = key_of(streamed.images)
    assert before == key_of(streamed.images)
    os.utime(tmp_path / "images" / "3.png", (1, 1))
    changed = key_of(streamed.images)
    (tmp_path / "images" / "4.png").unlink()
    assert len({before, changed, key_of(streamed.images), key_of(streamed.images[[1, 0]])}) == 4


def test_folders_with_the_same_names_sizes_and_times_have_their_own_caches(tmp_path):
    keys = set()
    for name in ("one", "other"):
        streamed, _ = files(tmp_path / name)
        for path in (tmp_path / name).iterdir():
            os.utime(path, (1, 1))
        keys.add(key_of(streamed.images))
    assert len(keys) == 2


def test_unreadable_images_are_told_by_every_run_that_uses_the_cache(tmp_path, caplog):
    streamed, resident = files(tmp_path / "images", 120)
    (tmp_path / "images" / "7.png").write_bytes(b"")
    expected = torch.from_numpy(resident.images)
    expected[7] = expected[8]
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            part = place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
        assert torch.equal(shown(part), expected)
        assert len([record for record in caplog.records if "7.png cannot be read" in record.getMessage()]) == 1
        assert "1 of 120 images could not be read" in part.remarks[0]


def test_too_many_unreadable_images_leave_no_cache(tmp_path):
    streamed, _ = files(tmp_path / "images", 20)
    for number in (1, 2, 3):
        (tmp_path / "images" / f"{number}.png").unlink()
    with pytest.raises(TailcloudError, match="more than 5 %"):
        place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    assert caches(tmp_path / "cache") == []


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    streamed, _ = files(tmp_path / "images", 40, side=32)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(TailcloudError, match=r"could not be written \(File too large\); nothing was left behind"):
            place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caches(tmp_path / "cache") == []
    place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    assert len(caches(tmp_path / "cache")) == 1


@pytest.mark.parametrize("where", ["ram", "folder"])
def test_too_little_room_is_found_before_anything_is_read(tmp_path, monkeypatch, where):
    streamed, _ = files(tmp_path / "images", 20)
    monkeypatch.setattr("tailcloud.data.loaders.cache.free_bytes", lambda _: 1000)
    monkeypatch.setattr("tailcloud.data.loaders.cache._build", None)
    monkeypatch.setattr("tailcloud.data.loaders.cache.SHARED_MEMORY", tmp_path)
    with pytest.raises(TailcloudError, match=r"a cache of 20 images needs 2.16.kB, but only 1.kB are free in"):
        place_images(streamed, CPU, DECODERS, "ram" if where == "ram" else str(tmp_path / "cache"))


def test_a_place_that_can_be_no_folder_is_refused(tmp_path):
    streamed, _ = files(tmp_path / "images", 5)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TailcloudError, match="cannot be created"):
        place_images(streamed, CPU, DECODERS, str(tmp_path / "file"))


def test_a_damaged_cache_is_refused_and_left_alone(tmp_path):
    streamed, _ = files(tmp_path / "images", 20)
    place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    (place,) = caches(tmp_path / "cache")
    (place / "images.u8").write_bytes(b"short")
    with pytest.raises(TailcloudError, match="is damaged; remove that folder to build it again"):
        place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    assert (place / "images.u8").read_bytes() == b"short"


@pytest.mark.parametrize("name", CACHE_FILES)
def test_a_file_of_zeros_is_damage(name, tmp_path):
    streamed, _ = files(tmp_path / "images", 20)
    place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    (place,) = caches(tmp_path / "cache")
    (place / name).write_bytes(bytes((place / name).stat().st_size))
    with pytest.raises(TailcloudError, match="damaged"):
        shown(place_images(streamed, CPU, DECODERS, str(tmp_path / "cache")))


def test_one_image_of_zeros_is_damage(tmp_path):
    streamed, _ = files(tmp_path / "images", 20)
    place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    (place,) = caches(tmp_path / "cache")
    pixels = np.memmap(place / "images.u8", np.uint8, "r+", shape=streamed.images.shape)
    pixels[13] = 0
    pixels.flush()
    with pytest.raises(TailcloudError, match="is damaged; remove that folder to build it again"):
        shown(place_images(streamed, CPU, DECODERS, str(tmp_path / "cache")))


@pytest.mark.parametrize("foreign", ["owner", "link", "writable"])
def test_a_folder_in_memory_that_others_can_change_is_refused(foreign, tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.data.loaders.cache.SHARED_MEMORY", tmp_path)
    folder = tmp_path / f"tailcloud-{os.getuid()}"
    if foreign == "owner":
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        folder = tmp_path / f"tailcloud-{uid + 1}"
        folder.mkdir()
    elif foreign == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    streamed, _ = files(tmp_path / "images", 20)
    with pytest.raises(TailcloudError, match="somebody else could change the images in it"):
        place_images(streamed, CPU, DECODERS, "ram")
    assert list(folder.iterdir()) == []


def test_the_folder_in_memory_is_closed_to_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.data.loaders.cache.SHARED_MEMORY", tmp_path)
    streamed, _ = files(tmp_path / "images", 20)
    part = place_images(streamed, CPU, DECODERS, "ram")
    assert (tmp_path / f"tailcloud-{os.getuid()}").stat().st_mode & 0o077 == 0
    del part


def test_memory_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.data.loaders.cache.SHARED_MEMORY", tmp_path)
    streamed, resident = files(tmp_path / "images", 20)
    part = place_images(streamed, CPU, DECODERS, "ram")
    (place,) = caches(tmp_path / f"tailcloud-{os.getuid()}")
    other = json.loads((place / "about.json").read_text()) | {"process": os.getppid()}
    (place / "about.json").write_text(json.dumps(other))
    second = place_images(streamed, CPU, DECODERS, "ram")  # of a process that lives on
    del part
    assert list((tmp_path / f"tailcloud-{os.getuid()}").iterdir()) == []
    assert torch.equal(shown(second), torch.from_numpy(resident.images))


SCRIPT = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from tailcloud.data.loaders import cache
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.file_images import FileImages
from tailcloud.data.packed_names import Names
import numpy as np
root, folder, slow = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
plain = cache._fetched
def slowly(reader):
    for found in plain(reader):
        print("filling", flush=True)
        time.sleep(slow)
        yield found
cache._fetched = slowly
images = FileImages(root, Names.of([f"{{number}}.png" for number in range(100)]), 6)
reader = cache.cached(images, np.sort(np.arange(100) % 3), Decoders(1), folder)
print(reader.cache.pixels.sum(dtype=np.int64), flush=True)
"""


def builder(tmp_path, slow):
    script = SCRIPT.format(paths=[path for path in sys.path if path])
    words = [sys.executable, "-c", script, str(tmp_path / "images"), str(tmp_path / "cache"), str(slow)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_two_processes_build_it_once_and_share_it(tmp_path):
    _, resident = files(tmp_path / "images", 100)
    said = [process.communicate(timeout=60)[0].split() for process in [builder(tmp_path, 0.3), builder(tmp_path, 0.3)]]
    assert sum("filling" in words for words in said) == 1
    assert [words[-1] for words in said] == [str(resident.images.sum(dtype=int))] * 2
    assert len(caches(tmp_path / "cache")) == 1


def test_a_killed_builder_leaves_nothing_that_is_taken_for_whole(tmp_path):
    streamed, resident = files(tmp_path / "images", 100)
    process = builder(tmp_path, 30)
    assert process.stdout.readline() == "filling\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    (half,) = caches(tmp_path / "cache")
    assert half.name.startswith(".tmp-")
    (tmp_path / "cache" / "mine.txt").write_text("mine")
    (tmp_path / "cache" / ".tmp-other").mkdir()
    assert torch.equal(
        shown(place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))), torch.from_numpy(resident.images)
    )
    kept = sorted(place.name for place in (tmp_path / "cache").iterdir())
    key = key_of(streamed.images)
    assert kept == sorted([".tmp-other", "mine.txt", key, f"{key}.lock"])


def test_filling_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tailcloud.data.loaders.cache.SECONDS_BETWEEN_NOTES", 0.0)
    streamed, _ = files(tmp_path / "images", 100)
    with caplog.at_level(logging.INFO):
        place_images(streamed, CPU, DECODERS, str(tmp_path / "cache"))
    assert "64 of 100 images are in the cache" in caplog.records[0].getMessage()


def test_a_lock_that_vanishes_while_it_is_looked_at_is_taken_again(tmp_path, monkeypatch):
    lock, taken = tmp_path / "key.lock", []

    def vanishing(_, how):
        taken.append(how)
        if len(taken) == 1:
            lock.unlink()

    monkeypatch.setattr("tailcloud.data.loaders.cache.fcntl.flock", vanishing)
    monkeypatch.setattr(Path, "exists", lambda _: True)  # it was there a moment ago
    with locked(tmp_path / "key"):
        assert len(taken) == 2


def test_a_name_that_no_file_can_have_is_a_missing_file(tmp_path):
    assert len(key_of(FileImages(tmp_path, Names.of(["a\0b.png"]), 8))) == 32
