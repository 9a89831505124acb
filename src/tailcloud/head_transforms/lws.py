"""Learnable weight scaling (LWS; Kang et al., ICLR 2020)."""

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import SCALED, made_of
from tailcloud.heads import Head, ScaledHead


class LearnableScaling(HeadTransform):
    """The trained head with a factor s_j = 1 before each output; ``train = "head.scale"`` then trains those alone."""

    def kind(self, before: str) -> str:
        """A scaled head around the one before."""
        return made_of(before, SCALED, "lws")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The same outputs as before."""
        assert isinstance(new, ScaledHead)
        new.inner.load_state_dict(old.state_dict())
