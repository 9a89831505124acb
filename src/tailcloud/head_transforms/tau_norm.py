"""τ-normalisation (Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import ClassVar

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import made_of
from tailcloud.heads import CosineHead, Head, LinearHead, ScaledHead
from tailcloud.losses.base import not_negative

SHORTEST = 1e-12  # what PyTorch's normalize divides by at least


class TauNorm(HeadTransform):
    """w_j / ‖w_j‖^τ, because frequent classes have longer weights.

    A linear head loses its bias and stays linear. A cosine head has normalised its weights already: it becomes
    f̂ · w_j / ‖w_j‖^τ, which is the cosine times ‖w_j‖^(1−τ), and nothing new where τ = 1.

    Args:
        counts: training images per class; not needed.
        tau: τ, from 0 (lengths as they are) to 1 (none) or more.
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, tau: float = 1.0) -> None:
        super().__init__(counts)
        self.tau = not_negative("tau", tau)

    def kind(self, before: str) -> str:
        """Linear stays linear; a cosine head is scaled."""
        return made_of(before, {"linear": "linear", "cosine": "scaled-cosine"}, "tau-norm")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """Weights of another length."""
        assert isinstance(old, LinearHead | CosineHead)
        lengths = old.weight.norm(dim=1).clamp(min=SHORTEST)
        if isinstance(new, ScaledHead):
            new.inner.load_state_dict(old.state_dict())
            new.scale.copy_(lengths ** (1 - self.tau))
        elif isinstance(new, LinearHead):
            new.weight.copy_(old.weight / lengths[:, None] ** self.tau)
            new.bias.zero_()
