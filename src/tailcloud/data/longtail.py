"""Long-tailed subsets of balanced data, exactly as in the papers (Cui et al. 2019, Cao et al. 2019)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import Labels
from tailcloud.data.splits import positions_by_class
from tailcloud.errors import UsageError


def exponential_counts(n_max: float, classes: int, ratio: float) -> list[int]:
    """n_j = int(n_max · (1/γ)^(j/(C−1))): the head has n_max images, the last class about n_max/γ.

    >>> exponential_counts(5000, 10, 100)
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    """
    if not 1 <= ratio <= n_max:
        raise UsageError(f"the imbalance ratio must lie between 1 and {n_max:g} (the largest class), not {ratio:g}")
    if classes == 1:
        return [int(n_max)]
    counts = [int(n_max * (1 / ratio) ** (j / (classes - 1))) for j in range(classes)]
    return [max(count, 1) for count in counts]  # at γ = n_max the product can round to just under 1


def longtail_positions(labels: Labels, counts: Sequence[int], seed: int = 0) -> NDArray[np.int64]:
    """The positions of a long-tailed subset: each class is shuffled, and its first n_j images are kept.

    The generator is NumPy's legacy one. Its stream does not depend on the counts, so a larger imbalance
    ratio keeps a subset of the images of a smaller one.
    """
    random = np.random.RandomState(seed)
    kept: list[NDArray[np.int64]] = []
    for members, count in zip(positions_by_class(labels, len(counts)), counts, strict=True):
        if len(members) < count:
            raise UsageError(f"class {len(kept)} has {len(members)} images, fewer than the {count} that are needed")
        random.shuffle(members)
        kept.append(members[:count])
    return np.concatenate(kept)
