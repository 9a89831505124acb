"""The operations of AutoAugment, RandAugment and TrivialAugment: one program an image, which runs its operation alone.

``data.augment.image_ops`` has the formulas, and computes all operations for all images: some hundred small kernels,
which take longer than a small network. Here an image costs what its own operation costs, in one launch.
"""

import torch
from torch import Tensor

from tailcloud.data.augment.image_ops import LUMINANCE
from tailcloud.kernels.image_operation_kernel import operate
from tailcloud.kernels.launch import launch

BLOCK = 1024  # pixels at a time


def apply_operations(images: Tensor, operations: Tensor, strengths: Tensor, *, fill: float = 0.0) -> Tensor:
    """What ``data.augment.image_ops.apply_operations`` computes, up to rounding."""
    images = images.contiguous()
    result = torch.empty_like(images)
    height, width, channels = images.shape[1:]
    launch(
        operate, (len(images),),
        images, operations, strengths, result, operations.stride(0), strengths.stride(0), fill,
        H=height, W=width, C=channels, GREYS=1 if channels == len(LUMINANCE) else channels, BLOCK=BLOCK,
    )  # fmt: skip
    return result
