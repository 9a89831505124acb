"""Label-aware smoothing (MisLAS; Zhong et al., CVPR 2021).

L = (1 − ε_y) · (−log p_y) + ε_y · mean_j(−log p_j),   ε_y grows with n_y from ε_K to ε_1
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, one_of, within
from tailcloud.profile import at_least_one

Form = Literal["concave", "linear", "convex"]


def smoothing(counts: ArrayLike, form: Form, head: float, tail: float) -> NDArray[np.float64]:
    """ε_j of each class: ``head`` (ε_1) for the most frequent one, ``tail`` (ε_K) for the rarest.

    With t = (n_j − n_K) / (n_1 − n_K), ``concave``: ε_K + (ε_1 − ε_K) · sin(π/2 · t); ``linear``: ε_K + (ε_1 − ε_K) · t
    and ``convex``: ε_1 + (ε_1 − ε_K) · sin(3π/2 + π/2 · t). Balanced classes all have ε_1.

    >>> smoothing([100, 55, 10], "linear", 0.3, 0.1)
    array([0.3, 0.2, 0.1])
    """
    n = at_least_one(counts).astype(np.float64)
    width = n.max() - n.min()
    t = (n - n.min()) / width if width else np.ones_like(n)
    rise = {"concave": np.sin(np.pi / 2 * t), "linear": t, "convex": 1 + np.sin(np.pi / 2 * (3 + t))}[form]
    made: NDArray[np.float64] = tail + (head - tail) * rise
    return made


class LabelAwareSmoothingLoss(Loss):
    """Cross-entropy with smoothed labels, more for more frequent classes.

    The true class keeps 1 − ε + ε/C, as in the authors' code; the paper says 1 − ε.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
        smooth_head: ε_1, of the most frequent class.
        smooth_tail: ε_K, of the rarest class.
        form: how ε goes from one to the other as the count grows: "concave", "linear" or "convex".
    """

    per_image = True
    smooth: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        scale: float = 1.0,
        smooth_head: float = 0.3,
        smooth_tail: float = 0.0,
        form: Form = "concave",
    ) -> None:
        super().__init__(scale)
        head, tail = within("smooth_head", smooth_head, 0, 1), within("smooth_tail", smooth_tail, 0, 1)
        smooth = torch.from_numpy(smoothing(counts, one_of("form", form, Form), head, tail)).float()
        self.register_buffer("smooth", smooth, persistent=False)  # ε_j

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean loss of a batch."""
        log_probabilities = self.logits(at_least_float32(output)).log_softmax(dim=1)
        own = log_probabilities.gather(1, target[:, None]).squeeze(1)
        smooth = self.smooth[target].to(own)
        return batch_mean(-(1 - smooth) * own - smooth * log_probabilities.mean(dim=1))
