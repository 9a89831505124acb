"""A residual network whose last block is new: published weights fill the rest, which can then stay as it is.

The construction of Places-LT: ``stage1.train = "backbone.fresh+head"`` trains the new block and the head alone.
"""

from collections.abc import Sequence

from torch import Tensor

from tailcloud.backbones.resnet import Block, ResNet

FRESH = "-fresh"


class FreshResNet(ResNet):
    """The last block of the last stage is ``fresh``, with PyTorch's own first weights; all before it is as published.

    Weights from a file go into the rest; the block of the file that ``fresh`` stands for is left out.
    """

    def __init__(self, kind: type[Block], blocks: Sequence[int], *, channels: int = 3, width: float = 1.0) -> None:
        *before, last = blocks
        super().__init__(kind, (*before, last - 1), channels=channels, width=width)
        self.fresh = kind(self.features, self.features // kind.expansion, 1)
        self.not_in_files = "fresh."
        self.left_in_files = f"layer{len(blocks)}.{last - 1}."

    def maps(self, images: Tensor) -> Tensor:
        """What the new block makes of images."""
        maps: Tensor = self.fresh(super().maps(images))
        return maps
