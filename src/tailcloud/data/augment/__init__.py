"""Data augmentation on whole batches, on the device. It does not depend on where images are stored.

``base`` says what an augmentation is. ``crop_flip``, ``resized_crop``, ``auto_augment``, ``rand_augment``,
``trivial_augment``, ``color_jitter``, ``random_grayscale``, ``random_erasing`` and ``cutout`` are one each;
``image_ops`` has the operations of the policies, ``auto_augment`` to ``trivial_augment``. ``pipeline`` applies them in
the order of ``AUGMENTATIONS`` and then normalises (``normalize``). ``mixup`` and ``cutmix`` mix images afterwards.

To add an augmentation, write a subclass of ``Augmentation`` in a file here and add its name to ``AUGMENTATIONS``: its
fields become keys of the recipe's ``[augment]`` table.
"""

import re
from functools import cached_property
from typing import Any, TypeVar

from pydantic import create_model

from tailcloud.data.augment.auto_augment import AutoAugment
from tailcloud.data.augment.base import Augmentation
from tailcloud.data.augment.color_jitter import ColorJitter
from tailcloud.data.augment.crop_flip import CropFlip
from tailcloud.data.augment.cutout import Cutout
from tailcloud.data.augment.rand_augment import RandAugment
from tailcloud.data.augment.random_erasing import RandomErasing
from tailcloud.data.augment.random_grayscale import RandomGrayscale
from tailcloud.data.augment.resized_crop import ResizedCrop
from tailcloud.data.augment.trivial_augment import TrivialAugment

__all__ = ["AUGMENTATIONS", "Augment", "Augmentation"]

# In the order in which they are applied: geometry of uint8 images first, then colours, then what erases pixels.
AUGMENTATIONS: tuple[type[Augmentation], ...] = (
    CropFlip,
    ResizedCrop,
    AutoAugment,
    RandAugment,
    TrivialAugment,
    ColorJitter,
    RandomGrayscale,
    RandomErasing,
    Cutout,
)

Kind = TypeVar("Kind", bound=Augmentation)

_FIELDS: dict[str, Any] = {
    name: (field.annotation, field) for kind in AUGMENTATIONS for name, field in kind.model_fields.items()
}
_Options = create_model("_Options", __config__=Augmentation.model_config, **_FIELDS)


class Augment(_Options):  # type: ignore[misc, valid-type]
    """How training images are varied; the defaults change nothing.

    It is the ``[augment]`` table of a recipe, or ``[view_augment]``, and has the fields of all ``AUGMENTATIONS``.
    Immutable.
    """

    @cached_property
    def augmentations(self) -> tuple[Augmentation, ...]:
        """Each augmentation with its options, in the order of ``AUGMENTATIONS``."""
        return tuple(self.options_of(kind) for kind in AUGMENTATIONS)

    @property
    def active(self) -> list[Augmentation]:
        """The augmentations that change images, in the order in which they are applied."""
        return [each for each in self.augmentations if each.is_active(self)]

    @property
    def needs_uncropped(self) -> bool:
        """Whether image files are read uncropped and a little larger, for an augmentation that crops them."""
        return any(each.needs_uncropped for each in self.active)

    def options_of(self, kind: type[Kind]) -> Kind:
        """The options of one augmentation."""
        return kind(**{name: getattr(self, name) for name in kind.model_fields})

    def check(self, table: str = "augment") -> None:
        """Raise ValueError for options that do not go together; ``table`` is the name of this table."""
        try:
            for each in self.augmentations:
                each.check(self)
        except ValueError as error:
            raise ValueError(re.sub(r"\baugment\.", f"{table}.", str(error))) from None
