"""Arrays in .npz files: names, types, sizes, and files that mean harm."""

import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from tailcloud.data import ReadOptions, open_dataset
from tailcloud.errors import TailcloudError, UsageError

RANDOM = np.random.RandomState(0)


def images(count, size=(8, 8), channels=(3,)):
    return RANDOM.randint(0, 256, (count, *size, *channels), np.uint8)


def opened(path, arrays=None, **options):
    if arrays is not None:
        np.savez(path / "data.npz", **arrays)
        path = path / "data.npz"
    return open_dataset(str(path), options=ReadOptions(**options))


def test_keras_names(tmp_path):
    x, y = images(10), np.arange(10) % 2
    data = opened(tmp_path, {"x_train": x[:6], "y_train": y[:6], "x_test": x[6:], "y_test": y[6:]})
    assert np.array_equal(data.train.images, x[:6])
    assert np.array_equal(data.test.images, x[6:])
    assert np.array_equal(data.train.labels, y[:6])
    assert (data.class_names, data.spec) == (["0", "1"], str(tmp_path / "data.npz"))


def test_medmnist_names_and_grey_images(tmp_path):
    parts = {"train": 8, "val": 4, "test": 2}
    arrays = {f"{part}_images": images(n, (28, 28), ()) for part, n in parts.items()}
    labels = {f"{part}_labels": (np.arange(n) % 2)[:, None].astype(np.uint8) for part, n in parts.items()}
    data = opened(tmp_path, arrays | labels)
    assert (len(data.train), len(data.val), len(data.test), data.shape) == (8, 4, 2, (28, 28, 1))
    assert np.array_equal(data.val.images[..., 0], arrays["val_images"])


def test_arrays_without_parts_are_parted(tmp_path):
    x, y = images(20), np.repeat([3, 12], 10)
    data = opened(tmp_path, {"x": x, "y": y})
    assert (data.profile.counts.tolist(), data.class_names) == ([8, 8], ["3", "12"])
    for split in (data.train, data.test):
        for image, label in zip(split.images, split.labels, strict=True):
            at = next(i for i in range(20) if np.array_equal(x[i], image))
            assert y[at] == int(data.class_names[label])


def test_labels_may_be_text(tmp_path):
    for names in (np.array(["ox", "cat"] * 5), np.array([b"ox", b"cat"] * 5)):
        assert opened(tmp_path, {"images": images(10), "labels": names}).class_names == ["cat", "ox"]


def test_sixteen_bits_and_floats_become_eight(tmp_path):
    x, y = images(6, channels=()), np.zeros(6, int)
    plain = opened(tmp_path, {"x": x, "y": y})
    deep = opened(tmp_path, {"x": x.astype(np.uint16) * 257, "y": y})
    floats = opened(tmp_path, {"x": x.astype(np.float32) / 255, "y": y})
    assert plain.fingerprint == deep.fingerprint == floats.fingerprint


def test_sizes_follow_the_same_rule_as_files(tmp_path):
    arrays = {"x": images(4, (100, 80)), "y": np.zeros(4, int)}
    data = opened(tmp_path, arrays)
    assert data.shape == (64, 64, 3)
    assert "half of them have 80 or more" in data.remarks[-1]
    assert opened(tmp_path, arrays, size=20, fit="pad").train.images[0, :, :2].max() == 0


def test_tiny_classes_can_be_dropped(tmp_path):
    x, y = images(14), np.array([0] * 10 + [1] * 4)
    data = opened(tmp_path, {"x": x, "y": y}, min_count=5)
    assert (data.class_names, len(data.train), len(data.test)) == (["0"], 8, 2)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"a": np.zeros(3)}, "has the arrays a; it needs x_train, y_train"),
        ({"x": images(4), "y": np.zeros((4, 14), int)}, r"y has the shape \(4, 14\).*one-hot"),
        ({"x": images(4), "y": np.zeros(4)}, "the type float64; it should have one whole number"),
        ({"x": images(4), "y": np.zeros(3, int)}, "x has 4 images, and y has 3 labels"),
        ({"x": images(4, channels=(4,)), "y": np.zeros(4, int)}, r"shape \(4, 8, 8, 4\); images are"),
        ({"x": images(4)[:0], "y": np.zeros(0, int)}, "images are"),
        ({"x": np.zeros((4, 8, 8), int), "y": np.zeros(4, int)}, "type int64; images are uint8"),
        ({"x": np.full((4, 8, 8), 7.5), "y": np.zeros(4, int)}, "floats from 7.5 to 7.5; give them from 0 to 1"),
        ({"x": np.full((4, 8, 8), np.nan), "y": np.zeros(4, int)}, "floats from nan to nan"),
        (
            {
                "x_train": images(4),
                "y_train": np.zeros(4, int),
                "x_test": images(4, channels=()),
                "y_test": np.zeros(4, int),
            },
            "different channels",
        ),
    ],
)
def test_arrays_that_cannot_work_are_refused(arrays, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        opened(tmp_path, arrays)


def test_groups_need_names(tmp_path):
    with pytest.raises(UsageError, match="needs file names or a CSV column"):
        opened(tmp_path, {"x": images(4), "y": np.zeros(4, int)}, group="(a)")


class Harm:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (self.place,)


def test_nothing_is_ever_unpickled(tmp_path):
    harm = np.empty(2, object)
    harm[:] = [Harm(str(tmp_path / "hacked")), 1]
    np.savez(tmp_path / "evil.npz", x=images(2), y=harm)
    with pytest.raises(TailcloudError, match="y holds Python objects, which are never unpickled"):
        opened(tmp_path / "evil.npz")
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Harm(str(tmp_path / "hacked"))))
    with pytest.raises(TailcloudError, match=r"not an .npz file of arrays"):
        opened(tmp_path / "pickle.npz")
    assert not (tmp_path / "hacked").exists()


def test_an_array_that_would_fill_the_memory_is_never_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((2000, 64, 64), np.uint8), y=np.zeros(2000, int))
    assert (tmp_path / "bomb.npz").stat().st_size < 50_000
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 10**7)
    monkeypatch.setattr("tailcloud.data.readers.npz.read_array", None)
    with pytest.raises(TailcloudError, match=r"its unpacked arrays need 16.4.MB of memory, and 10.MB are free"):
        opened(tmp_path / "bomb.npz")


def test_a_header_that_lies_is_refused(tmp_path):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 999, 999), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        archive.writestr("y.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(TailcloudError):
        opened(tmp_path / "lie.npz")


def test_a_truncated_file_is_damaged(tmp_path):
    np.savez(tmp_path / "data.npz", x=images(9), y=np.zeros(9, int))
    content = (tmp_path / "data.npz").read_bytes()
    for cut in (10, len(content) // 2, len(content) - 30):
        (tmp_path / "cut.npz").write_bytes(content[:cut])
        with pytest.raises(TailcloudError, match="is damaged"):
            opened(tmp_path / "cut.npz")


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_that_unpacks_to_gigabytes_is_not_read(version, tmp_path):
    start = b"\x93NUMPY" + bytes([version, 0]) + (2**26).to_bytes(4, "little")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, start + b" " * 2**26)
    tracemalloc.start()
    with pytest.raises(TailcloudError, match="the header of x has 67,108,864 bytes"):
        opened(tmp_path / "bomb.npz")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_as_numpy_never_does_is_not_opened(packing, tmp_path):
    """Of these Python unpacks some kilobytes at once, whatever they become: the first bytes can be gigabytes."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", packing) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, bytes(2**26))
    tracemalloc.start()
    with pytest.raises(TailcloudError, match="compressed in a way that NumPy does not use"):
        opened(tmp_path / "bomb.npz")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


def test_labels_that_look_alike_are_not_one_class(tmp_path):
    images = np.zeros((4, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", x=images, y=np.array([b"caf\xe9", b"caf\xe8"] * 2))
    with pytest.raises(UsageError, match="whose names differ only in characters that cannot be printed"):
        open_dataset(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("order", "<>")
def test_text_with_characters_that_do_not_exist_is_damaged(order, tmp_path):
    labels = np.array(["a", "bc"] * 5, dtype=f"{order}U2")
    opened(tmp_path, {"x": images(10), "y": labels})
    labels.view(f"{order}u4")[0] = 0x110000
    with pytest.raises(TailcloudError, match="a character that does not exist"):
        opened(tmp_path, {"x": images(10), "y": labels})
