"""The base class of heads."""

from typing import ClassVar

from torch import Tensor, nn


class Head(nn.Module):
    """``head(features)``: features [batch, features] in, outputs [batch, classes] out.

    Everything that a head needs to predict is a parameter or a persistent buffer, and its constructor takes only the
    two sizes, so that a saved model needs only the name of its head and its tensors. A backbone of several experts has
    such a head for each (``ExpertHeads``).
    """

    cosine: bool  # outputs lie in [−1, 1]; the loss scales them
    inference: ClassVar[str | None] = None  # the head that predicts the same from some of its tensors; None: itself

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [batch, classes]."""
        raise NotImplementedError
