"""Substitutes for image files that cannot be read during training; each is reported once."""

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
    """Which image replaces an unreadable one: the next of its class, in the order of the list.

    After the last of a class comes its first. An unreadable file is not tried again.
    """

    def __init__(self, images: FileImages, labels: NDArray[np.int64]) -> None:
        self.images, self.labels = images, labels
        self.reasons: dict[int, str] = {}
        self.replacements: dict[int, int] = {}

    def instead(self, rows: Positions) -> Positions:
        """The rows to read instead of these."""
        return np.array([self._instead(row) for row in rows.tolist()], np.int64) if self.replacements else rows

    def _instead(self, row: int) -> int:
        while row in self.replacements:  # a replacement may become unreadable too
            row = self.replacements[row]
        return row

    def replace(self, row: int, reason: str) -> tuple[ImageArray, float]:
        """Pixels and aspect for an image that cannot be read.

        Raises:
            TailcloudError: its whole class cannot be read, or more than 5 % of all images cannot.
        """
        self.report(row, reason)
        for other in self._followers(row):
            if other in self.reasons:
                continue
            try:
                pixels, aspect = self.images.read(other)
            except Unreadable as error:
                self.report(other, error.why)
                continue
            self.replacements[row] = other
            return pixels, aspect
        raise self._whole_class_unreadable(row, reason)

    def replace_all(self, unreadable: Mapping[int, str], *, reported: bool) -> None:
        """Choose replacements for images that are known to be unreadable; ``reported``: without a warning."""
        for row, reason in unreadable.items():
            self.report(row, reason, reported=reported)
        for row, reason in unreadable.items():
            other = next((other for other in self._followers(row) if other not in self.reasons), None)
            if other is None:
                raise self._whole_class_unreadable(row, reason)
            self.replacements[row] = other

    def report(self, row: int, reason: str, *, reported: bool = False) -> None:
        """Warn once that an image cannot be read, unless that was ``reported``; too many of them stop the run."""
        if row in self.reasons:
            return
        self.reasons[row] = reason
        if not reported:
            log.warning(
                "%s cannot be read (%s); the next image of its class replaces it.", self.images.path(row), reason
            )
        share = 100 * len(self.reasons) / len(self.images)
        if share > MAX_UNREADABLE:
            raise TailcloudError(
                f"{len(self.reasons):,} of {len(self.images):,} images ({number(share, 0)} %, more than "
                f"{number(MAX_UNREADABLE, 0)} %) cannot be read: {self._some()}; repair or remove them"
            )

    def remarks(self) -> Sequence[str]:
        """What a result says about unreadable images."""
        if not self.reasons:
            return []
        what = f"{len(self.reasons):,} of {len(self.images):,} images could not be read during training"
        return [f"{what} and were replaced by others of their classes: {self._some()}."]

    def _whole_class_unreadable(self, row: int, reason: str) -> TailcloudError:
        return TailcloudError(
            f"{self.images.path(row)} cannot be read ({reason}), and no other image of its class can; repair them, or "
            "remove the class"
        )

    def _some(self) -> str:
        return some_of([f"{self.images.path(row)} ({reason})" for row, reason in self.reasons.items()])

    def _followers(self, row: int) -> list[int]:
        """The other images of its class, those after it in the list first."""
        same = np.flatnonzero(self.labels == self.labels[row])
        at = int(np.searchsorted(same, row))
        return [*same[at + 1 :].tolist(), *same[:at].tolist()]
