"""Images that turn out to be unreadable while they are streamed: said once, and another one takes their place."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import ImageArray, Unreadable
from tailcloud.data.packed_names import Positions
from tailcloud.data.parallel_io import MAX_UNREADABLE
from tailcloud.errors import TailcloudError
from tailcloud.formatting import number, some_of

log = logging.getLogger(__name__)


class Substitutes:
    """Which image stands for one that cannot be read: the next of its class, in the order of the list.

    The last of a class is followed by its first. What was once unreadable is not asked for again.
    """

    def __init__(self, images: FileImages, labels: NDArray[np.int64]) -> None:
        self.images, self.labels = images, labels
        self.reasons: dict[int, str] = {}
        self.places: dict[int, int] = {}

    def instead(self, rows: Positions) -> Positions:
        """The rows to read for these."""
        return np.array([self._instead(row) for row in rows.tolist()], np.int64) if self.places else rows

    def _instead(self, row: int) -> int:
        while row in self.places:  # what stands for another one may itself become unreadable
            row = self.places[row]
        return row

    def replace(self, row: int, why: str) -> tuple[ImageArray, float]:
        """Pixels and aspect for an image that cannot be read.

        Raises:
            TailcloudError: its whole class cannot be read, or more than 5 % of all images cannot.
        """
        self.report(row, why)
        for other in self._followers(row):
            if other in self.reasons:
                continue
            try:
                found = self.images.read(other)
            except Unreadable as error:
                self.report(other, error.why)
                continue
            self.places[row] = other
            return found
        raise self._hopeless(row, why)

    def settle(self, broken: Mapping[int, str], *, told: bool = False) -> None:
        """Find who stands for images that are known to be unreadable, all at once; perhaps people were ``told``."""
        for row, why in broken.items():
            self.report(row, why, told=told)
        for row, why in broken.items():
            other = next((other for other in self._followers(row) if other not in self.reasons), None)
            if other is None:
                raise self._hopeless(row, why)
            self.places[row] = other

    def report(self, row: int, why: str, *, told: bool = False) -> None:
        """Say once, unless people were ``told``, that an image cannot be read; too many of them stop the run."""
        if row in self.reasons:
            return
        self.reasons[row] = why
        if not told:
            what = "%s cannot be read (%s); the next image of its class stands for it."
            log.warning(what, self.images.path(row), why)
        share = 100 * len(self.reasons) / len(self.images)
        if share > MAX_UNREADABLE:
            raise TailcloudError(
                f"{len(self.reasons):,} of {len(self.images):,} images ({number(share, 0)} %, more than "
                f"{number(MAX_UNREADABLE, 0)} %) cannot be read: {self._some()}; mend them or take them out"
            )

    def remarks(self) -> Sequence[str]:
        """What a result says about it."""
        if not self.reasons:
            return []
        what = f"{len(self.reasons):,} of {len(self.images):,} images could not be read while they were shown"
        return [f"{what}, and others of their classes stood for them: {self._some()}."]

    def _hopeless(self, row: int, why: str) -> TailcloudError:
        return TailcloudError(
            f"{self.images.path(row)} cannot be read ({why}), and no other image of its class can; mend them, or take "
            "the class out"
        )

    def _some(self) -> str:
        return some_of([f"{self.images.path(row)} ({why})" for row, why in self.reasons.items()])

    def _followers(self, row: int) -> list[int]:
        """The other images of its class, those behind it in the list first."""
        same = np.flatnonzero(self.labels == self.labels[row])
        at = int(np.searchsorted(same, row))
        return [*same[at + 1 :].tolist(), *same[:at].tolist()]
