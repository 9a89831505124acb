"""A ResNet with a fresh last block: published weights fill the rest, which can stay frozen.

Used for Places-LT: ``stage1.train = "backbone.fresh+head"`` trains only the fresh block and the head.
"""

from collections.abc import Sequence

from torch import Tensor

from tailcloud.backbones.resnet import Block, ResNet

FRESH_SUFFIX = "-fresh"


class FreshResNet(ResNet):
    """A ResNet whose last block, ``fresh``, has PyTorch's default initial weights.

    A weights file fills all other blocks; its last block is not used.
    """

    sequential = True

    def __init__(self, kind: type[Block], blocks: Sequence[int], *, channels: int = 3, width: float = 1.0) -> None:
        *before, last = blocks
        super().__init__(kind, (*before, last - 1), channels=channels, width=width)
        self.fresh = kind(self.features, self.features // kind.expansion, 1)
        self.missing_in_files = "fresh."
        self.unused_in_files = f"layer{len(blocks)}.{last - 1}."

    def maps(self, images: Tensor) -> Tensor:
        """Feature maps of the fresh block."""
        return self.layer(5, super().maps(images))

    def layer(self, number: int, maps: Tensor) -> Tensor:
        """Feature maps through a layer of the ResNet, or through the fresh block, which is number 5."""
        if number < 5:
            return super().layer(number, maps)
        fresh: Tensor = self.fresh(maps)
        return fresh

    def layers(self) -> list[list[str]]:
        """Those of the ResNet, then the fresh block."""
        return [*super().layers(), ["fresh"]]
