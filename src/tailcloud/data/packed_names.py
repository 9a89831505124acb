"""``Names``: the names of very many files in little memory, as one string of bytes and the end of each name."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16  # slices that are joined at a time, because as Python objects they need more memory than their bytes

Positions = NDArray[np.int64]


class Names:
    """An immutable sequence of file names, stored as the bytes of the file system, so that any name is possible.

    Ten million names of sixty letters take 0.7 GB; as Python's strings they would take three times that.
    """

    def __init__(self, text: bytes, ends: Positions) -> None:
        self.text, self.ends = text, ends

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        """Names from strings, as ``os.fsencode`` would have them."""
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        return cls(b"".join(encoded), np.cumsum([len(name) for name in encoded], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[str]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, position: int) -> str:
        """One name."""
        return self.raw(position).decode("utf-8", "surrogateescape")

    def raw(self, position: int) -> bytes:
        """One name as bytes."""
        start = int(self.ends[position - 1]) if position else 0
        return self.text[start : int(self.ends[position])]

    def take(self, positions: Positions) -> "Names":
        """The names at these positions, none of them negative."""
        starts = np.where(positions > 0, self.ends[positions - 1], 0)
        stops = self.ends[positions]
        first = np.flatnonzero(np.diff(positions, prepend=-2) != 1)  # neighbors are taken as one slice
        last = np.append(first[1:], len(positions)) - 1 if len(first) else first
        blocks = (slice(at, at + BLOCK) for at in range(0, len(first), BLOCK))
        text = b"".join(self._slices(starts[first[block]], stops[last[block]]) for block in blocks)
        return Names(text, np.cumsum(stops - starts))

    @classmethod
    def joined(cls, sequences: Sequence["Names"]) -> "Names":
        """Several sequences, one after the other."""
        before = np.cumsum([0, *(len(names.text) for names in sequences)])
        ends = [names.ends + start for names, start in zip(sequences, before, strict=False)]
        return cls(b"".join(names.text for names in sequences), np.concatenate(ends) if ends else np.zeros(0, np.int64))

    def _slices(self, starts: Positions, stops: Positions) -> bytes:
        return b"".join(self.text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))

    def digest(self) -> str:
        """A SHA-256 digest of all names in order."""
        digest = sha256(self.text)
        digest.update(np.ascontiguousarray(self.ends, np.int64).data)
        return digest.hexdigest()
