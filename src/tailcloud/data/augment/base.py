"""What an augmentation is: options of a recipe's ``[augment]`` table, draws for an epoch, code for whole batches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from tailcloud.data.augment.image_ops import ImageOperations, apply_operations

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

Generators = Callable[[str], np.random.Generator]  # a generator for each part name, such as " boxes"
Arrays = dict[str, NDArray[np.generic]]
ALL_ROWS = slice(None)


class Draws:
    """The random numbers of an epoch by name; the first dimension of each tensor is the images of the epoch."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def tensors(self) -> dict[str, Tensor]:
        """All of them, by name, always in the same order."""
        return dict(self._tensors)

    def followed_by(self, others: "Draws") -> "Draws":
        """These numbers, and then those of further images."""
        return Draws({name: torch.cat([each, others[name]]) for name, each in self._tensors.items()})

    def to(self, device: torch.device) -> "Draws":
        """The same numbers on a device."""
        return Draws({name: each.to(device) for name, each in self._tensors.items()})


@dataclass(frozen=True)
class BatchDraws:
    """The draws of some images of an epoch; rows are selected when a tensor is used."""

    draws: Draws
    rows: Tensor | slice

    def __getitem__(self, name: str) -> Tensor:
        return self.draws[name][self.rows]


@dataclass(frozen=True)
class ImageInfo:
    """What an augmentation may need to know beside the pixels.

    ``shape`` is the height and width that the model expects. ``aspects`` [batch] is width / height of the original
    images, which were squashed to a square when they were stored; None: all 1. ``operations`` computes the operations
    of a policy.
    """

    shape: tuple[int, int]
    aspects: Tensor | None = None
    operations: ImageOperations = apply_operations


class Augmentation(BaseModel):
    """One augmentation. Its fields are keys of the ``[augment]`` table; their defaults change nothing.

    To add one, write a subclass in a file of this folder and add its name to ``AUGMENTATIONS``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    needs_uncropped: ClassVar[bool] = False  # image files are read uncropped and a little larger than the model's input

    def is_active(self, augment: "Augment") -> bool:
        """Whether these options change images, given all options of the table."""
        raise NotImplementedError

    def check(self, augment: "Augment") -> None:
        """Raise ValueError, with a full sentence, for options that do not go together."""

    def draw(self, generators: Generators, count: int) -> Arrays:
        """The random numbers for so many images, as whole arrays on the host.

        ``generators(part)`` gives every part name its own generator, so no augmentation disturbs another one's draws.
        """
        raise NotImplementedError

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:
        """Augment images [batch, H, W, C] on a scale of 0 … 255, uint8 or float. Device code: no host value is read."""
        raise NotImplementedError
