"""The two plainest changes: none, and a fresh start (cRT; Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import Literal

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.heads import Head


class Keep(HeadTransform):
    """The head goes on as it was trained."""

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The same numbers."""
        new.load_state_dict(old.state_dict())


class Fresh(HeadTransform):
    """A head that was never trained.

    Args:
        counts: training images per class.
        kind: "same", or the name of another head.
    """

    def __init__(self, counts: Sequence[int], *, kind: Literal["same", "linear", "cosine"] = "same") -> None:
        super().__init__(counts)
        self.name = kind

    def kind(self, before: str) -> str:
        """As asked for."""
        return before if self.name == "same" else self.name

    def apply(self, old: Head, new: Head, trained: Trained) -> None:
        """It is fresh already."""
