"""The total direct effect (De-confound-TDE; Tang et al., NeurIPS 2020)."""

from collections.abc import Sequence
from typing import ClassVar

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView, look_up_head
from tailcloud.heads import CausalHead, Head
from tailcloud.losses.base import not_negative


class TotalDirectEffect(HeadTransform):
    """Makes a causal head subtract the drift direction of its training from features.

    Args:
        counts: training images per class; not used.
        alpha: α, how much of it is subtracted; 0 leaves the trained head unchanged.
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, alpha: float = 1.0) -> None:
        super().__init__(counts)
        self.alpha = not_negative("alpha", alpha)

    def head_after(self, before: str) -> str:
        """Only a causal head records the drift."""
        return look_up_head(before, {"causal": "causal"}, "tde")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """The same weights, and α."""
        assert isinstance(new, CausalHead)
        new.load_state_dict(old.state_dict())
        new.alpha.fill_(self.alpha)
