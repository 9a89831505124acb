"""Distribution alignment (DisAlign; Zhang et al., CVPR 2021)."""

from tailcloud.heads import AlignedHead, Head
from tailcloud.rebalance.base import Change, Trained
from tailcloud.rebalance.kinds import ALIGNED, made_of


class DisAlign(Change):
    """The trained head with an alignment of its outputs behind it: ``train = "head.align"`` trains that alone."""

    def kind(self, before: str) -> str:
        """An aligned head around the one before."""
        return made_of(before, ALIGNED, "disalign")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The head as it was trained; the alignment starts afresh."""
        assert isinstance(new, AlignedHead)
        new.inner.load_state_dict(old.state_dict())
