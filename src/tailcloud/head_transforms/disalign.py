"""Distribution alignment (DisAlign; Zhang et al., CVPR 2021)."""

from tailcloud.head_transforms.base import ALIGNED_HEADS, HeadTransform, TrainedModelView, look_up_head
from tailcloud.heads import AlignedHead, Head


class DisAlign(HeadTransform):
    """The trained head, followed by an alignment of its outputs; ``train = "head.align"`` trains only the alignment."""

    def head_after(self, before: str) -> str:
        """An aligned head around the trained one."""
        return look_up_head(before, ALIGNED_HEADS, "disalign")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """The trained head; the alignment starts fresh."""
        assert isinstance(new, AlignedHead)
        new.inner.load_state_dict(old.state_dict())
