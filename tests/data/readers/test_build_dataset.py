"""Images of one's own that stay in their files: which parts, sizes and remarks, and that few of them are opened."""

import os

import numpy as np
import pytest
from PIL import Image

from helpers.drawing import draw, draw_classes
from tailcloud.data import ReadOptions, hold_out, open_dataset
from tailcloud.data.file_images import FileImages
from tailcloud.data.readers import open_path
from tailcloud.data.readers.build_dataset import even_sample
from tailcloud.errors import TailcloudError, UsageError


def opened(path, loader="stream", **options):
    return open_dataset(str(path), options=ReadOptions(loader=loader, **options))


def parts_of(data):
    return {"train": data.train, "test": data.test} | ({"val": data.val} if data.val else {})


@pytest.fixture
def photos(tmp_path):
    return draw_classes(tmp_path / "photos", {"cat": 30, "lynx": 6}, size=(24, 20))


@pytest.mark.parametrize("options", [{}, {"size": 9, "fit": "pad"}, {"min_count": 8}, {"group": "([0-9])[.]"}])
def test_a_streamed_folder_is_the_resident_one(photos, options):
    resident, streamed = opened(photos, "resident", **options), opened(photos, **options)
    assert streamed.class_names == resident.class_names
    assert streamed.shape == resident.shape
    assert streamed.fit == resident.fit
    assert streamed.remarks == resident.remarks
    assert np.allclose(streamed.mean, resident.mean)
    assert np.allclose(streamed.std, resident.std)
    for name, part in parts_of(resident).items():
        mine = parts_of(streamed)[name]
        assert isinstance(mine.images, FileImages)
        assert list(mine.images.names) == part.names.tolist()
        assert mine.labels.tolist() == part.labels.tolist()
        assert all(np.array_equal(mine.images.read(row)[0], part.images[row]) for row in range(len(part)))


def test_a_validation_part_can_be_held_out(photos):
    held = hold_out(opened(photos), 0.2)
    assert len(held.val) == 6
    assert not set(held.val.images.names) & set(held.train.images.names)


def test_what_does_not_fit_is_streamed_and_says_so(photos, monkeypatch):
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 50_000)
    data = opened(photos, "auto")
    assert isinstance(data.train.images, FileImages)
    assert (
        "36 images at data.size = 20 with 3 channels need 86.4\u00a0kB of memory, and 50\u00a0kB are free: they "
        "stay in their files, and each is read when it is needed (data.loader)."
    ) in data.remarks
    assert not isinstance(opened(photos, "auto", size=8).train.images, FileImages)


def test_a_sample_that_looked_small_is_no_reason_to_refuse(tmp_path, monkeypatch):
    for number in range(40):
        draw(tmp_path / "cat" / f"{number}.png", 100 if number < 39 else (1, 2, 3))
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.SAMPLE", 2)
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.even_sample", lambda images: [0, 1])
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 2 * 40 * 64 * 2)
    assert isinstance(opened(tmp_path, "auto").train.images, FileImages)


def test_only_a_sample_is_opened(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"cat": 60}, size=(10, 10))
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.SAMPLE", 20)
    opened_files, real = [], Image.open
    monkeypatch.setattr(Image, "open", lambda path, **options: opened_files.append(path) or real(path, **options))
    data = opened(tmp_path)
    assert len(opened_files) == 40  # headers of all images, pixels of training ones
    assert data.shape == (10, 10, 3)
    assert even_sample(60)[:3] == [0, 3, 6]


def test_a_sample_that_cannot_be_read_stops_and_a_few_do_not(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"cat": 60})
    (tmp_path / "cat" / "0.png").write_bytes(b"")
    data = opened(tmp_path)
    assert len(data.train) + len(data.test) == 60
    assert any(r.startswith("1 of 48 images cannot be read: cat/0.png (it is empty (0 bytes))") for r in data.remarks)
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.SAMPLE", 40)
    assert any(r.startswith("1 of 40 sampled images cannot be read: cat/0") for r in opened(tmp_path).remarks)
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.SAMPLE", 10)
    with pytest.raises(TailcloudError, match=r"a sample of 10 images.: 1 of 10 images \(10 %, more than 5 %\)"):
        opened(tmp_path)


def test_lists_of_numbers_keep_their_order(tmp_path):
    draw_classes(tmp_path, {"a": 6, "b": 6})
    lines = [f"{'ab'[n % 2]}/{n // 2}.png {(7, -3)[n % 2]}" for n in range(12)]
    (tmp_path / "l.txt").write_text("\n".join(lines))
    data = opened(tmp_path / "l.txt", test=0.34)
    assert data.class_names == ["-3", "7"]
    assert data.profile.counts.tolist() == [4, 4]
    names = [name for line in lines if (name := line.split()[0]) in set(data.train.images.names)]
    assert list(data.train.images.names) == names
    assert all((name[0] == "a") == (label == 1) for name, label in zip(names, data.train.labels, strict=True))


def test_lists_of_parts_are_read_together(tmp_path):
    draw_classes(tmp_path, {"a": 9})
    for part, numbers in (("train", range(6)), ("val", [6]), ("test", [7, 8])):
        (tmp_path / f"my_{part}.txt").write_text("".join(f"a/{number}.png 1\n" for number in numbers))
    data = opened(tmp_path / "my_train.txt")
    assert (len(data.train), len(data.val), len(data.test)) == (6, 1, 2)
    assert data.remarks[0] == "my_train.txt, my_val.txt, my_test.txt are read together as splits."


def test_words_columns_and_groups_are_streamed_from_the_other_reader(tmp_path):
    draw_classes(tmp_path, {"a": 6, "b": 6})
    rows = [(f"{'ab'[n % 2]}/{n // 2}.png", ("ox", "cat")[n % 2], n % 3) for n in range(12)]
    (tmp_path / "w.txt").write_text("".join(f"{path} {label}\n" for path, label, _ in rows))
    (tmp_path / "w.csv").write_text("path,label,who\n" + "".join(f"{p},{label},{w}\n" for p, label, w in rows))
    for data in (opened(tmp_path / "w.txt"), opened(tmp_path / "w.csv"), opened(tmp_path / "w.csv", group="who")):
        assert data.class_names == ["cat", "ox"]
        assert isinstance(data.test.images, FileImages)
    assert not set(data.train.groups) & set(data.test.groups)


def test_long_lists_are_resident_only_where_they_fit(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"a": 6})
    (tmp_path / "l.txt").write_text("".join(f"a/{n}.png 0\n" for n in range(6)))
    before = opened(tmp_path / "l.txt", "auto")
    monkeypatch.setattr(open_path, "LARGE_LIST", 10)
    assert opened(tmp_path / "l.txt", "auto").fingerprint == before.fingerprint
    monkeypatch.setattr("tailcloud.data.readers.csv_list.MAX_BYTES", 20)
    assert isinstance(opened(tmp_path / "l.txt", "auto").train.images, FileImages)
    (tmp_path / "l.txt").write_text("a/0.png 0\na/1.png 0\na/2.png ox\n")
    with pytest.raises(
        UsageError, match=r"line 3 of .*l.txt is not a path, .* a list of more than 20 bytes needs such lines only"
    ):
        opened(tmp_path / "l.txt", "auto")


def test_arrays_do_not_stream(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((8, 4, 4), np.uint8), y=np.arange(8) % 2)
    with pytest.raises(UsageError, match=r'data.loader = "stream" is for image files, and .*x.npz has arrays'):
        opened(tmp_path / "x.npz")
    with pytest.raises(UsageError, match=r"data.loader = stream is for your own images"):
        opened("digits-lt")


def test_names_that_are_no_text_and_absolute_ones_are_found(tmp_path):
    draw_classes(tmp_path / "photos", {"cat": 8})
    (tmp_path / "photos" / "cat" / "0.png").rename(tmp_path / "photos" / "cat" / os.fsdecode(b"caf\xe9.png"))
    assert {size for part in parts_of(opened(tmp_path / "photos")).values() for size in shapes(part)} == {(8, 8, 3)}
    files = [path for path in (tmp_path / "photos" / "cat").iterdir() if path.name[0].isdigit()]
    (tmp_path / "l.txt").write_text("".join(f"{path} 0\n" for path in files))
    assert {size for part in parts_of(opened(tmp_path / "l.txt")).values() for size in shapes(part)} == {(8, 8, 3)}


def shapes(part):
    return [part.images.read(row)[0].shape for row in range(len(part))]
