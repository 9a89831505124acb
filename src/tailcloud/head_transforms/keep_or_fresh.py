"""Keep the trained head, or start with a fresh one (cRT; Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import Literal

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView
from tailcloud.heads import Head


class KeepHead(HeadTransform):
    """The trained head, unchanged."""

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """Copy all weights."""
        new.load_state_dict(old.state_dict())


class FreshHead(HeadTransform):
    """A head with fresh weights.

    Args:
        counts: training images per class.
        kind: the new head: "same" as before, "linear" or "cosine".
    """

    def __init__(self, counts: Sequence[int], *, kind: Literal["same", "linear", "cosine"] = "same") -> None:
        super().__init__(counts)
        self.head = kind

    def head_after(self, before: str) -> str:
        """The head of the option ``kind``."""
        return before if self.head == "same" else self.head

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:
        """The new head is fresh already."""
