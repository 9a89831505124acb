"""Names that a list has twice, found among very many without a Python object for any of them."""

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.names import Names

Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint64]
Vector = NDArray[np.int64]

WORD = 8  # bytes
FACTOR, TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
MASKS = np.array([(1 << WORD * kept) - 1 for kept in range(WORD + 1)], np.uint64)  # of so many bytes


def keys_of(block: Bytes, starts: Vector, ends: Vector) -> Keys:
    """A number for each stretch of bytes: the same for the same bytes, and hardly ever for others.

    Eight bytes at a time are taken as a number and mixed into the key; bytes behind the end are masked.
    """
    padded = np.append(block, np.zeros(WORD, np.uint8))
    words = np.ndarray((len(block) + 1,), "<u8", padded.data, strides=(1,))  # one at every byte
    keys, rows, at = (ends - starts).astype(np.uint64), np.arange(len(starts)), starts.copy()
    while len(rows := rows[at[rows] < ends[rows]]):
        here = at[rows]
        mixed = (keys[rows] ^ (words[here] & MASKS[np.minimum(ends[rows] - here, WORD)])) * FACTOR
        keys[rows] = mixed ^ (mixed >> TURN)
        at[rows] += WORD
    return keys


def repeats(names: Names, keys: Keys) -> tuple[Vector, Vector]:
    """Rows whose name an earlier row has too, in order, and for each of them the first row that has it."""
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alike = np.flatnonzero(np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]))
    first: dict[bytes, int] = {}
    pairs = [(row, first.setdefault(names.raw(row), row)) for row in alike.tolist()]
    again = np.array([pair for pair in pairs if pair[0] != pair[1]], np.int64).reshape(-1, 2)
    return again[:, 0], again[:, 1]
