"""The network of a stage whose batches are features: the head alone."""

from torch import Tensor, nn

from tailcloud.heads import Head


class HeadNetwork(nn.Module):
    """A classifier without its backbone: takes features [batch, D] where the classifier takes images."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def features(self, images: Tensor) -> Tensor:
        """The batch itself."""
        return images

    def forward(self, images: Tensor) -> Tensor:
        """The head's outputs for a batch of features."""
        outputs: Tensor = self.head(images)
        return outputs
