"""CIFAR from its official files: every image in its place, every fault a sentence.

The fake images carry their number, their label and a mark in each colour, so that a wrong pick or a swapped axis shows.
"""

import os
import pickle
import shutil
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from tailcloud.data import open_dataset
from tailcloud.data.benchmarks import cifar
from tailcloud.data.benchmarks.cifar import open_cifar
from tailcloud.data.longtail import exponential_counts
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.profile import fingerprint

GREEN, BLUE = 1024, 2048


def fake_part(classes, images, seed):
    """Rows [N, 3072] and shuffled labels, as many of each class."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), images // classes))
    numbers, rows = np.arange(images), np.zeros((images, 3072), np.uint8)
    rows[:, 0], rows[:, 1] = numbers % 256, numbers // 256
    rows[:, GREEN + 32], rows[:, BLUE + 31] = labels, 77
    return rows, labels


def dump(path: Path, content, protocol=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol))


def write_python(root, classes, train, test, protocol=4):
    fine = "fine_" if classes == 100 else ""
    folder = root / ("cifar-100-python" if fine else "cifar-10-batches-py")
    names = [b"train"] if fine else [f"data_batch_{k}".encode() for k in range(1, 6)]
    parts = zip(names, np.split(train[0], len(names)), np.split(train[1], len(names)), strict=True)
    for name, rows, labels in [*parts, (b"test" if fine else b"test_batch", *test)]:
        dump(folder / name.decode(), {b"data": rows, f"{fine}labels".encode(): labels.tolist()}, protocol)
    meta = {f"{fine}label_names".encode(): [f"class{c}".encode() for c in range(classes)]}
    dump(folder / ("meta" if fine else "batches.meta"), meta, protocol)
    return folder


def write_binary(root, classes, train, test):
    folder = root / ("cifar-100-binary" if classes == 100 else "cifar-10-batches-bin")
    folder.mkdir(parents=True)
    names = ["train.bin"] if classes == 100 else [f"data_batch_{k}.bin" for k in range(1, 6)]
    parts = zip(names, np.split(train[0], len(names)), np.split(train[1], len(names)), strict=True)
    for name, rows, labels in [*parts, ("test.bin" if classes == 100 else "test_batch.bin", *test)]:
        coarse = [labels // 5] if classes == 100 else []
        np.column_stack([*coarse, labels, rows]).astype(np.uint8).tofile(folder / name)
    text = "".join(f"class{c}\n" for c in range(classes)) + "\n"
    (folder / ("fine_label_names.txt" if classes == 100 else "batches.meta.txt")).write_text(text)
    return folder


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """CIFAR-10 in the binary and CIFAR-100 in the python layout, in full size; both sets' training labels."""
    root, labels = tmp_path_factory.mktemp("cifar"), {}
    for classes, write in ((10, write_binary), (100, write_python)):
        train = fake_part(classes, 50_000, classes)
        write(root, classes, train, fake_part(classes, 10_000, classes + 1))
        labels[classes] = train[1]
    yield root, labels
    shutil.rmtree(root)  # 370 MB


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A CIFAR-10 of 1,000 + 200 images."""
    monkeypatch.setattr(cifar, "TRAIN_IMAGES", 1000)
    monkeypatch.setattr(cifar, "TEST_IMAGES", 200)
    return fake_part(10, 1000, 0), fake_part(10, 200, 1)


@pytest.fixture
def python10(tmp_path, small):
    return write_python(tmp_path, 10, *small)


@pytest.fixture
def binary10(tmp_path, small):
    return write_binary(tmp_path, 10, *small)


def numbers(images):
    return images[:, 0, 0, 0].astype(int) + 256 * images[:, 0, 1, 0].astype(int)


def official_picks(labels, counts):
    """Step by step as the field's code does it."""
    np.random.seed(0)
    picked = []
    for label, count in enumerate(counts):
        members = np.where(labels == label)[0]
        np.random.shuffle(members)
        picked.extend(members[:count].tolist())
    return picked


@pytest.mark.parametrize(("classes", "ratio"), [(10, 10), (10, 100), (100, 50), (100, 200)])
def test_long_tailed_subsets_hold_the_very_images_of_the_field(whole, classes, ratio):
    root, labels = whole
    dataset = open_dataset(f"cifar{classes}-lt:{ratio}", root)
    counts = [int(50_000 / classes * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]
    picked = official_picks(labels[classes], counts)
    assert dataset.spec == f"cifar{classes}-lt:{ratio}"
    assert dataset.profile.counts.tolist() == counts
    assert numbers(dataset.train.images).tolist() == picked
    assert dataset.train.labels.tolist() == labels[classes][picked].tolist()
    assert len(dataset.test) == 10_000
    assert numbers(dataset.test.images).tolist() == list(range(10_000))


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_whole_set_is_in_file_order(whole, name):
    dataset = open_dataset(name, whole[0])
    assert dataset.spec == name
    assert dataset.shape == (32, 32, 3)
    assert numbers(dataset.train.images).tolist() == list(range(50_000))
    assert len(set(dataset.profile.counts.tolist())) == 1
    assert dataset.class_names == [f"class{c}" for c in range(dataset.classes)]


def test_pixels_colours_and_statistics(python10):
    dataset = open_cifar("cifar10", 10, python10.parent)
    for part in (dataset.train, dataset.test):
        assert part.images.dtype == np.uint8
        assert part.labels.dtype == np.int64
        assert np.array_equal(part.images[:, 1, 0, 1], part.labels)
        assert (part.images[:, 0, 31, 2] == 77).all()
    for name in ("cifar10", "cifar100"):
        assert cifar.CIFAR_EDITIONS[name].url.startswith("https://www.cs.toronto.edu/~kriz/")
    assert dataset.mean == (0.4914, 0.4822, 0.4465)
    assert dataset.std == (0.2023, 0.1994, 0.2010)


@pytest.mark.parametrize("classes", [10, 100])
def test_both_layouts_and_every_protocol_give_the_same_data(tmp_path, small, classes):
    train, test = fake_part(classes, 1000, 2), fake_part(classes, 200, 3)
    write_binary(tmp_path / "b", classes, train, test)
    found = {open_cifar(f"cifar{classes}", 5, tmp_path / "b").fingerprint}
    for protocol in range(6):
        write_python(tmp_path / "p", classes, train, test, protocol)
        found.add(open_cifar(f"cifar{classes}", 5, tmp_path / "p").fingerprint)
    assert len(found) == 1


def test_the_python_layout_is_preferred_unless_it_is_incomplete(tmp_path, small):
    python = write_python(tmp_path, 10, *small)
    write_binary(tmp_path, 10, *fake_part_pair(seed=9))
    first = small[0][1].tolist()
    assert open_cifar("cifar10", None, tmp_path).train.labels.tolist() == first
    (python / "data_batch_3").unlink()
    assert open_cifar("cifar10", None, tmp_path).train.labels.tolist() != first


def fake_part_pair(seed):
    return fake_part(10, 1000, seed), fake_part(10, 200, seed + 1)


def test_root_may_be_the_folder_itself_under_any_name(python10, binary10):
    expected = open_cifar("cifar10", 10, python10.parent).fingerprint
    assert open_cifar("cifar10", 10, python10).fingerprint == expected
    assert open_cifar("cifar10", 10, binary10).fingerprint == expected
    assert open_cifar("cifar10", 10, python10.rename(python10.parent / "mine")).fingerprint == expected


def test_a_larger_ratio_than_a_class_has_images(tmp_path):
    with pytest.raises(UsageError, match="between 1 and 500"):
        open_dataset("cifar100-lt:501", tmp_path)


# What is missing


def test_no_data_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = 'cifar10-lt:100 needs CIFAR-10 in data/; run "tailcloud data get cifar10 --root data" or pass --root'
    with pytest.raises(TailcloudError) as raised:
        open_dataset("cifar10-lt:100")
    assert str(raised.value).startswith(sentence)
    with pytest.raises(TailcloudError, match=r"cifar100 needs CIFAR-100 in .* --root 'my data'\" or pass --root"):
        open_dataset("cifar100", "my data")


def test_a_root_that_is_a_file(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(TailcloudError, match="needs CIFAR-10 in"):
        open_dataset("cifar10", tmp_path / "data")


@pytest.mark.parametrize("direct", [False, True])
def test_missing_files_are_all_named(python10, direct):
    (python10 / "data_batch_3").unlink()
    (python10 / "batches.meta").unlink()
    root = python10 if direct else python10.parent
    with pytest.raises(TailcloudError, match=rf"lacks data_batch_3, batches\.meta; run .* --root {python10.parent}\"$"):
        open_cifar("cifar10", 10, root)


# What is damaged


def change(path, **values):
    content = pickle.loads(path.read_bytes())
    dump(path, {**content, **{key.encode(): value for key, value in values.items()}})


@pytest.mark.parametrize("length", [0, 1, 100, 50_000])
def test_a_truncated_pickle(python10, length):
    path = python10 / "data_batch_2"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(TailcloudError, match=r"data_batch_2 is truncated, .*; run \"tailcloud data get cifar10"):
        open_cifar("cifar10", 10, python10.parent)


@pytest.mark.parametrize("change_by", [-1, 1, -3073])
def test_a_binary_file_of_another_size(binary10, change_by):
    path = binary10 / "data_batch_5.bin"
    os.truncate(path, path.stat().st_size + change_by)
    size = f"{614_600 + change_by:,} bytes instead of 614,600"
    with pytest.raises(TailcloudError, match=rf"data_batch_5\.bin is damaged: it has {size}; run"):
        open_cifar("cifar10", 10, binary10.parent)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((200, 3071), np.uint8),
        np.zeros((199, 3072), np.uint8),
        np.zeros((200, 32, 32, 3), np.uint8),
        np.zeros((200, 3072), np.float32),
        [[0] * 3072] * 200,
        None,
    ],
    ids=["narrow", "short", "images", "float", "list", "absent"],
)
def test_images_of_another_shape(python10, data):
    change(python10 / "data_batch_1", data=data)
    with pytest.raises(TailcloudError, match=r"data_batch_1 is damaged: it does not have 200 images of 32×32 pixels"):
        open_cifar("cifar10", 10, python10.parent)


@pytest.mark.parametrize("labels", [[0] * 199, ["cat"] * 200, [[1, 2], [3]] * 100, [0.5] * 200, [2**80] * 200, 7, None])
def test_labels_that_are_no_labels(python10, labels):
    change(python10 / "test_batch", labels=labels)
    with pytest.raises(
        TailcloudError, match=r"test_batch is damaged: it does not have 200 whole numbers as \"labels\""
    ):
        open_cifar("cifar10", 10, python10.parent)


@pytest.mark.parametrize("label", [-1, 10])
def test_labels_out_of_range(python10, label):
    change(python10 / "data_batch_4", labels=[label] + [0] * 199)
    with pytest.raises(
        TailcloudError, match=rf"data_batch_4 .* label {label}, but the classes are numbered 0 to 9; run"
    ):
        open_cifar("cifar10", 10, python10.parent)


def test_labels_as_an_array(python10, small):
    before = open_cifar("cifar10", 10, python10.parent).fingerprint
    change(python10 / "data_batch_1", labels=small[0][1][:200].astype(np.int32))
    assert open_cifar("cifar10", 10, python10.parent).fingerprint == before


def test_a_class_with_too_few_images(python10):
    change(python10 / "data_batch_1", labels=[0] * 200)
    with pytest.raises(TailcloudError, match=r"damaged: classes class0, .* should have 100 images in data_batch_1 \+"):
        open_cifar("cifar10", None, python10.parent)


@pytest.mark.parametrize("names", [[b"cat"], b"cat", None])
def test_class_names_that_are_not_there(python10, names):
    change(python10 / "batches.meta", label_names=names)
    with pytest.raises(
        TailcloudError, match=r"batches\.meta is damaged: it does not have the names of 10 classes; run"
    ):
        open_cifar("cifar10", 10, python10.parent)


def test_class_names_of_the_binary_layout(binary10):
    (binary10 / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(
        TailcloudError, match=r"batches\.meta\.txt is damaged: it does not have the names of 10 classes"
    ):
        open_cifar("cifar10", 10, binary10.parent)


# What differs from the published files


def publish(monkeypatch, folder, name="cifar10"):
    """Declare that these files are the published ones."""
    edition = cifar.CIFAR_EDITIONS[name]
    layouts = tuple(
        replace(layout, sums={file: md5((folder / file).read_bytes()).hexdigest() for file in layout.files})
        if layout.folder == folder.name
        else layout
        for layout in edition.layouts
    )
    monkeypatch.setitem(cifar.CIFAR_EDITIONS, name, replace(edition, layouts=layouts))


def test_published_files_need_no_remark(python10, monkeypatch):
    publish(monkeypatch, python10)
    assert cifar.find_copy("cifar10", python10.parent).is_published()
    assert open_cifar("cifar10", 10, python10.parent).remarks == ()


def test_changed_files_are_remarked(python10, monkeypatch):
    publish(monkeypatch, python10)
    for file in ("data_batch_2", "test_batch"):
        (python10 / file).write_bytes((python10 / file).read_bytes() + b" ")
    copy = cifar.find_copy("cifar10", python10.parent)
    assert not copy.is_published()
    assert copy.changed() == ["data_batch_2", "test_batch"]
    (remark,) = open_cifar("cifar10", 10, python10.parent).remarks
    assert "differs from the published CIFAR-10 in data_batch_2, test_batch; run" in remark


def test_a_missing_file_is_not_published(python10, monkeypatch):
    publish(monkeypatch, python10)
    (python10 / "test_batch").unlink()
    copy = cifar.find_copy("cifar10", python10.parent)
    assert (copy.missing(), copy.changed(), copy.is_published()) == (["test_batch"], [], False)


def test_black_images_betray_a_partial_copy(python10):
    rows = pickle.loads((python10 / "data_batch_1").read_bytes())[b"data"].copy()
    rows[:3] = 0
    change(python10 / "data_batch_1", data=rows)
    changed, black = open_cifar("cifar10", None, python10.parent).remarks
    assert "differs" in changed
    assert "3 of 1,000 training images are black" in black
    assert "partial copy" in black


def test_a_known_fingerprint_needs_no_checksum(python10, monkeypatch):
    """The same images in other files are the same images."""
    found = open_cifar("cifar10", 10, python10.parent)
    assert found.remarks
    monkeypatch.setitem(cifar.FINGERPRINTS, "cifar10-lt:10", found.fingerprint)
    assert open_cifar("cifar10", 10, python10.parent).remarks == ()


def test_known_fingerprints_are_of_today_s_kind():
    """They were taken with this digest: if it changes, they must be taken again."""
    assert fingerprint(np.arange(6, dtype=np.uint8).reshape(2, 3), np.array([1, 2])) == "4ef21e2f0e906116"


def test_published_checksums_are_whole():
    for edition in cifar.CIFAR_EDITIONS.values():
        sums = [value for layout in edition.layouts for value in layout.sums.values() if value]
        assert all(len(value) == 32 and int(value, 16) for value in [*sums, edition.archive_sum])
        assert len(set(sums)) == len(sums)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(binary10):
    (binary10 / "test_batch.bin").chmod(0)
    with pytest.raises(TailcloudError, match=r"test_batch\.bin cannot be read: Permission denied"):
        open_cifar("cifar10", 10, binary10.parent)


@pytest.mark.parametrize(("classes", "ratio"), [(10, 50), (10, 200), (100, 50), (100, 100)])
def test_settings_are_chosen_on_training_images_alone(whole, classes, ratio):
    name = f"cifar{classes}"
    tune = open_dataset(f"{name}-lt-tune:{ratio}", whole[0])
    cell, widest = (set(numbers(open_dataset(f"{name}-lt:{gamma}", whole[0]).train.images)) for gamma in (ratio, 50))
    train, judged = set(numbers(tune.train.images)), set(numbers(tune.test.images))
    assert train < cell
    assert not train & judged
    assert train | judged == widest
    counts = np.array(exponential_counts(50_000 / classes, classes, ratio))
    assert tune.profile.counts.tolist() == np.maximum(1, (0.9 * counts).astype(int)).tolist()
    assert np.bincount(tune.test.labels, minlength=classes).min() > 0


def test_a_ratio_that_leaves_nothing_to_judge_on_is_refused(whole):
    with pytest.raises(UsageError, match="must be at least 50"):
        open_dataset("cifar10-lt-tune:10", whole[0])
