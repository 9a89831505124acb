"""Learnable weight scaling (LWS; Kang et al., ICLR 2020)."""

from tailcloud.heads import Head, ScaledHead
from tailcloud.rebalance.base import Change, Trained
from tailcloud.rebalance.kinds import SCALED, made_of


class LearnableScaling(Change):
    """The trained head with a factor s_j = 1 before each output; ``train = "head.scale"`` then trains those alone."""

    def kind(self, before: str) -> str:
        """A scaled head around the one before."""
        return made_of(before, SCALED, "lws")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The same outputs as before."""
        assert isinstance(new, ScaledHead)
        new.inner.load_state_dict(old.state_dict())
