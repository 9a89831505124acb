"""digits-lt: the 1,797 handwritten 8×8 digits of scikit-learn, made long-tailed; no download."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tailcloud.data.dataset import Dataset, Split, channel_statistics
from tailcloud.data.longtail import exponential_counts
from tailcloud.data.splits import positions_by_class

TEST_PER_CLASS, N_MAX, DEFAULT_RATIO = 50, 120, 50.0


def open_digits(ratio: float | None) -> Dataset:
    """Each class shuffled by RandomState(0): 50 test images, then the long-tailed training images."""
    ratio = DEFAULT_RATIO if ratio is None else ratio
    everything = all_digits()
    random, test, train = np.random.RandomState(0), [], []
    for members, count in zip(
        positions_by_class(everything.labels, 10), exponential_counts(N_MAX, 10, ratio), strict=True
    ):
        random.shuffle(members)
        test.append(members[:TEST_PER_CLASS])
        train.append(members[TEST_PER_CLASS : TEST_PER_CLASS + count])
    training = everything.take(np.concatenate(train))
    mean, std = channel_statistics(training.pixels)
    return Dataset(
        spec="digits-lt" if ratio == DEFAULT_RATIO else f"digits-lt:{ratio:g}",
        train=training,
        test=everything.take(np.concatenate(test)),
        class_names=[str(digit) for digit in range(10)],
        mean=mean,
        std=std,
    )


def all_digits() -> Split:
    """All 1,797 digits, their grey levels 0 … 16 stretched to 0 … 255."""
    rows = np.loadtxt(digits_file(), delimiter=",", dtype=np.int64)
    images = rows[:, :-1].reshape(-1, 8, 8, 1)
    return Split(np.rint(images * (255 / 16)).astype(np.uint8), np.ascontiguousarray(rows[:, -1]))


def digits_file() -> Path:
    """The file that ``sklearn.datasets.load_digits`` reads; importing scikit-learn for it would take a second."""
    found = find_spec("sklearn")
    assert found is not None  # tailcloud depends on it
    assert found.origin is not None
    return Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
