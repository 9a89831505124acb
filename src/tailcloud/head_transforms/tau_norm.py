"""τ-normalisation (Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import ClassVar

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView, look_up_head
from tailcloud.heads import CosineHead, Head, LinearHead, ScaledHead
from tailcloud.losses.base import not_negative

MIN_LENGTH = 1e-12  # the smallest divisor, as in PyTorch's normalize


class TauNorm(HeadTransform):
    """Divides each class weight by a power of its length, w_j / ‖w_j‖^τ: frequent classes have longer ones.

    A linear head loses its bias and stays linear. A cosine head normalises its weights already: it becomes
    f̂ · w_j / ‖w_j‖^τ, the cosine times ‖w_j‖^(1−τ), which is unchanged for τ = 1.

    Args:
        counts: training images per class; not used.
        tau: τ, usually from 0 (lengths unchanged) to 1 (all lengths 1).
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, tau: float = 1.0) -> None:
        super().__init__(counts)
        self.tau = not_negative("tau", tau)

    def head_after(self, before: str) -> str:
        """A linear head stays linear; a cosine head becomes a scaled one."""
        return look_up_head(before, {"linear": "linear", "cosine": "scaled-cosine"}, "tau-norm")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """Rescale the weights."""
        assert isinstance(old, LinearHead | CosineHead)
        lengths = old.weight.norm(dim=1).clamp(min=MIN_LENGTH)
        if isinstance(new, ScaledHead):
            new.inner.load_state_dict(old.state_dict())
            new.scale.copy_(lengths ** (1 - self.tau))
        elif isinstance(new, LinearHead):
            new.weight.copy_(old.weight / lengths[:, None] ** self.tau)
            new.bias.zero_()
