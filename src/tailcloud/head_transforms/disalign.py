"""Distribution alignment (DisAlign; Zhang et al., CVPR 2021)."""

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import ALIGNED, made_of
from tailcloud.heads import AlignedHead, Head


class DisAlign(HeadTransform):
    """The trained head with an alignment of its outputs behind it: ``train = "head.align"`` trains that alone."""

    def kind(self, before: str) -> str:
        """An aligned head around the one before."""
        return made_of(before, ALIGNED, "disalign")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The head as it was trained; the alignment starts afresh."""
        assert isinstance(new, AlignedHead)
        new.inner.load_state_dict(old.state_dict())
