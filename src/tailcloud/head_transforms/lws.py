"""Learnable weight scaling (LWS; Kang et al., ICLR 2020)."""

from tailcloud.head_transforms.base import SCALED_HEADS, HeadTransform, TrainedModelView, look_up_head
from tailcloud.heads import Head, ScaledHead


class LearnableScaling(HeadTransform):
    """The trained head with a factor s_j = 1 for each output; ``train = "head.scale"`` trains only the factors."""

    def head_after(self, before: str) -> str:
        """A scaled head around the trained one."""
        return look_up_head(before, SCALED_HEADS, "lws")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """The trained head; outputs stay the same."""
        assert isinstance(new, ScaledHead)
        new.inner.load_state_dict(old.state_dict())
