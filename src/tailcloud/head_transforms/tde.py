"""The total direct effect (De-confound-TDE; Tang et al., NeurIPS 2020)."""

from collections.abc import Sequence
from typing import ClassVar

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import made_of
from tailcloud.heads import CausalHead, Head
from tailcloud.losses.base import not_negative


class TotalDirectEffect(HeadTransform):
    """A causal head takes the drift of its training off features from now on.

    Args:
        counts: training images per class; not needed.
        alpha: α, how much of it: 0 is the head as it was trained.
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, alpha: float = 1.0) -> None:
        super().__init__(counts)
        self.alpha = not_negative("alpha", alpha)

    def kind(self, before: str) -> str:
        """The head before must have followed the drift."""
        return made_of(before, {"causal": "causal"}, "tde")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The same weights, and α."""
        assert isinstance(new, CausalHead)
        new.load_state_dict(old.state_dict())
        new.alpha.fill_(self.alpha)
