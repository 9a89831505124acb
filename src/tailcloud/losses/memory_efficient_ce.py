"""Memory-efficient cross-entropy for very many classes: the backward pass needs one tensor of the size of the logits.

PyTorch's own also keeps the log-probabilities, but its backward pass allocates a matrix of zeros with one −1 in each
row besides them, and then the gradient.
"""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """−log softmax(z)_y of each sample: ``F.cross_entropy(logits, target, reduction="none")``, differentiable once."""
    each: Tensor = _CrossEntropy.apply(logits, target)  # type: ignore[no-untyped-call]
    return each


def smoothed_cross_entropy(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The cross-entropy of each sample with the label (1 − ε)·[j = y] + ε / C; PyTorch's own unless ε = 0."""
    if not smoothing:
        return cross_entropy(logits, target)
    return F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        log_probabilities = logits.log_softmax(dim=1)
        ctx.save_for_backward(log_probabilities, target)
        return F.nll_loss(log_probabilities, target, reduction="none")

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        """∂/∂z_j = p_j − [j = y], times the upstream gradient."""
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError("this cross-entropy has no second derivative; do not pass create_graph=True")
        log_probabilities, target = ctx.saved_tensors
        weight = upstream[:, None]
        gradient = log_probabilities.exp().mul_(weight)
        return gradient.scatter_add_(1, target[:, None], -weight), None
