"""Groups that are found in the files: bursts by EXIF, copies; each stays in one split, and it is always the same."""

import signal
import threading
import time
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image

from helpers.drawing import draw_classes, photograph
from tailcloud.data import Dataset, ReadOptions, Split, hold_out, open_dataset
from tailcloud.data.exif import Capture, read_capture, read_captures
from tailcloud.data.readers import burst_groups, groups
from tailcloud.data.readers.burst_groups import BURST_SECONDS, find_bursts
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.groups import group_keys
from tailcloud.data.readers.split_assignment import assign_splits
from tailcloud.errors import UsageError

NOON = datetime(2024, 5, 17, 12)
LOADERS = pytest.mark.parametrize("loader", ["resident", "stream"])


def opened(path, **options):
    return open_dataset(str(path), options=ReadOptions(**{"size": 8, **options}))


def split_of_each(data):
    """The split of each file, by name."""
    held = hold_out(data, 0.2)
    parts = {"train": held.train, "val": held.val, "test": held.test}
    names = {part: split.images.names if split.streamed else split.names for part, split in parts.items()}
    return {name: part for part, listed in names.items() for name in listed}


@pytest.fixture
def bursts(tmp_path):
    """Two classes of ten bursts of four photographs; file names say which burst, in an order of their own."""
    for c in ("fox", "hare"):
        for burst in range(10):
            for number in range(4):
                taken = NOON + timedelta(hours=burst, seconds=20 * number, minutes=30 * (c == "fox"))
                photograph(tmp_path / c / f"{7 * number % 5}_{burst}.jpg", taken, seed=burst * 10 + number)
    return tmp_path


@LOADERS
def test_a_burst_stays_in_one_split(bursts, loader):
    data = opened(bursts, group="exif", loader=loader)
    split = split_of_each(data)
    burst_of = {name: (name.split("/")[0], name.split("_")[1]) for name in split}
    assert len({(burst_of[name], split[name]) for name in split}) == len(set(burst_of.values())) == 20
    assert np.bincount(data.test.labels).tolist() == [8, 8]
    assert "80 of 80 images are in 20\u00a0bursts (same camera, at most 30 s apart; data.group)." in data.remarks
    assert split_of_each(opened(bursts, group="exif", loader=loader, size=16, fit="squash")) == split


@LOADERS
def test_copies_stay_in_one_split(tmp_path, loader):
    for number in range(30):
        image = photograph(tmp_path / "fox" / f"{number}.jpg", seed=number)
        if number % 3 == 0:
            Image.open(image).resize((52, 40)).save(image.with_name(f"{number} again.jpg"), quality=70)
    data = opened(tmp_path, group="duplicates", loader=loader)
    split = split_of_each(data)
    assert all(split[f"fox/{number}.jpg"] == split[f"fox/{number} again.jpg"] for number in range(0, 30, 3))
    assert "20 of 40 images are in 10\u00a0sets of copies (the same or nearly so; data.group)." in data.remarks
    assert split_of_each(opened(tmp_path, group="duplicates", loader=loader, size=32, fit="pad")) == split


def test_files_are_read_once_for_a_recipe_that_is_chosen_and_again_after_a_change(bursts, monkeypatch):
    read = []
    monkeypatch.setattr(burst_groups, "read_captures", lambda paths: read.append(len(paths)) or read_captures(paths))
    for size in (8, 16):
        opened(bursts, group="exif", size=size)
    assert read == [80]
    (bursts / "fox" / "0_0.jpg").unlink()
    assert any(remark.startswith("79 of 79") for remark in opened(bursts, group="exif").remarks)


def test_where_nothing_is_found_the_setting_is_refused(tmp_path):
    draw_classes(tmp_path / "drawn", {"cat": 4})
    for hour in range(4):
        photograph(tmp_path / "seldom" / "cat" / f"{hour}.jpg", NOON + timedelta(hours=hour), seed=hour)
    with pytest.raises(UsageError, match=r"none of 4\sfiles has one in its EXIF data; leave data.group out"):
        opened(tmp_path / "drawn", group="exif")
    with pytest.raises(UsageError, match=r'"exif" finds no bursts \(same camera, at most 30 s apart\) among 4\sfiles'):
        opened(tmp_path / "seldom", group="exif")
    with pytest.raises(UsageError, match=r'"duplicates" finds no sets of copies .* among 4\sfiles; leave it out'):
        opened(tmp_path / "seldom", group="duplicates")


def test_a_column_of_that_name_comes_first(tmp_path):
    draw_classes(tmp_path, {"cat": 12})
    lines = [f"cat/{number}.png,cat,{number // 3}" for number in range(12)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,exif", *lines]))
    data = opened(tmp_path / "list.csv", group="exif")
    assert len({*data.train.groups, *data.test.groups}) == 4


def test_given_splits_stay_and_shared_bursts_are_counted(bursts, tmp_path_factory):
    home = tmp_path_factory.mktemp("given")
    for place in bursts.rglob("*.jpg"):
        part = "test" if place.name.startswith("0") else "train"
        target = home / part / place.parent.name / place.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(place.read_bytes())
    data = opened(home, group="exif")
    assert len(data.test) == 20
    assert any(remark.startswith("20 groups have images in more than one split") for remark in data.remarks)


def test_time_and_camera_come_from_the_exif_block(tmp_path):
    taken = NOON + timedelta(milliseconds=250)
    place = photograph(tmp_path / "a.jpg", taken, camera=("Reconyx", "HC600", "H600HF12"))
    assert read_capture(place) == Capture("Reconyx HC600 H600HF12", (taken - datetime(1970, 1, 1)).total_seconds())
    other = photograph(tmp_path / "b.jpg", taken + timedelta(seconds=30), camera=("Reconyx", "HC600", "H600HF12"))
    assert read_capture(other).seconds - read_capture(place).seconds == 30


def exif_of(taken):
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "Canon"
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = taken
    return exif


@pytest.mark.parametrize("words", ["0000:00:00 00:00:00", "yesterday", "", "2024:05:17"])
def test_a_time_that_is_none_is_not_known(tmp_path, words):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif_of(words))
    assert read_capture(tmp_path / "a.jpg") is None


def test_a_png_is_not_decoded_for_its_time(tmp_path, monkeypatch):
    Image.new("RGB", (8, 8)).save(tmp_path / "plain.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "taken.png", exif=exif_of("2024:05:17 12:00:00"))
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
    assert read_capture(tmp_path / "plain.png") is None
    assert read_capture(tmp_path / "taken.png") is not None


captures = st.lists(
    st.none() | st.builds(Capture, st.sampled_from(["", "a", "b"]), st.integers(0, 400).map(float)), max_size=24
)


@given(captures)
def test_bursts_are_chains_of_neighbours_in_time(taken):
    first = find_bursts(taken)
    linked = [[one is not None and other is not None and one.camera == other.camera
               and abs(one.seconds - other.seconds) <= BURST_SECONDS for other in taken] for one in taken]  # fmt: skip
    group = group_of = list(range(len(taken)))
    for _ in taken:  # the smallest number travels one link a round
        group = [min(group[at] for at in group_of if at == row or linked[row][at]) for row in group_of]
    assert first.tolist() == group


@given(captures.filter(lambda taken: len(taken) > 3), st.data())
def test_no_burst_straddles_training_validation_and_test(taken, data):
    labels = data.draw(st.lists(st.sampled_from("abc"), min_size=len(taken), max_size=len(taken)))
    keys = [str(number) for number in find_bursts(taken).tolist()]
    try:
        assignment = assign_splits("photos", labels, [""] * len(labels), keys, ReadOptions())
    except UsageError:  # one burst has it all
        return
    order, names = assignment.order(), np.array([str(row) for row in range(len(taken))], object)
    parts = {
        part: Split(
            np.zeros((len(rows), 4, 4, 1), np.uint8), assignment.labels[rows], assignment.groups[rows], names[rows]
        )
        for part in ("train", "test")
        for rows in [assignment.rows(part)]
    }
    held = hold_out(Dataset("photos", class_names=assignment.class_names, mean=[0.5], std=[0.25], **parts), 0.2)
    seen = [{keys[int(name)] for name in split.names} for split in (held.train, held.val, held.test) if split]
    assert sum(map(len, seen)) == len(set(keys)) == len(set.union(*seen))
    again = assign_splits("photos", labels, [""] * len(labels), keys, ReadOptions())
    assert np.array_equal(again.order(), order)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_pattern_that_backtracks_for_years_is_stopped(monkeypatch):
    monkeypatch.setattr(groups, "MATCH_SECONDS", 0.2)
    files = FileList(["a"] * 3, ["cat/" + "a" * 60 + "!"] * 3, ["cat"] * 3, [""] * 3)
    start = time.monotonic()
    with pytest.raises(UsageError, match=r"takes more than 0\.2 s on a few file names"):
        group_keys(files, "((a+)+)$")
    assert time.monotonic() - start < 5
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_patterns_work_in_other_threads():
    files = FileList(["x"] * 2, ["cat/p1_0.png", "cat/p1_1.png"], ["cat"] * 2, [""] * 2)
    found = []
    thread = threading.Thread(target=lambda: found.append(group_keys(files, "(p[0-9])_")))
    thread.start()
    thread.join()
    assert found == [(["p1", "p1"], [])]
