"""The ``Augment`` record: its keys come from the registry, and a new augmentation is one class and one name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

import tailcloud
from tailcloud.data.augment import AUGMENTATIONS, Augment
from tailcloud.data.augment.base import BatchDraws, Draws, ImageInfo
from tailcloud.data.augment.color_jitter import ColorJitter
from tailcloud.data.augment.crop_flip import CropFlip
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.pipeline import AugmentPipeline
from tailcloud.data.augment.resized_crop import ResizedCrop
from tailcloud.data.augment.trivial_augment import TrivialAugment
from tailcloud.randomness import host_generator
from tailcloud.recipe import Recipe, load_recipe

ALL = {
    "crop_padding": 0,
    "flip": True,
    "crop_area": [0.1, 1.0],
    "crop_ratio": [0.5, 2.0],
    "auto_augment": "cifar",
    "rand_augment": 2,
    "rand_augment_level": 5,
    "trivial_augment": True,
    "color_jitter": [0.4, 0.4, 0.4],
    "hue_jitter": 0.1,
    "color_jitter_share": 0.8,
    "random_grayscale": 0.5,
    "random_erasing": 0.5,
    "cutout": 2,
}


def test_the_keys_are_those_of_all_augmentations_in_order():
    assert list(Augment.model_fields) == list(ALL)
    assert [name for kind in AUGMENTATIONS for name in kind.model_fields] == list(Augment.model_fields)


def test_it_is_immutable_and_equal_by_value():
    augment = Augment(**ALL)
    assert augment.active  # cached values do not count
    assert augment == Augment(**ALL) != Augment()
    with pytest.raises(ValidationError, match="frozen"):
        augment.flip = False
    with pytest.raises(ValidationError, match="cut_out"):
        Augment(cut_out=8)


def test_the_record_of_the_recipe_reaches_the_loader_unchanged():
    recipe = load_recipe("digits-lt/ce", [{"augment": ALL}])
    assert recipe.augment == Augment(**ALL)
    assert Recipe.model_validate(recipe.model_dump()).augment == recipe.augment


@pytest.mark.parametrize(
    ("options", "active"),
    [
        ({}, []),
        ({"flip": True}, [CropFlip]),
        ({"crop_padding": 2, "color_jitter": [0.1, 0.0, 0.0]}, [CropFlip, ColorJitter]),
        ({"flip": True, "crop_area": [0.1, 1.0]}, [ResizedCrop]),
        ({"trivial_augment": True}, [TrivialAugment]),
        (ALL, list(AUGMENTATIONS[1:])),
    ],
)
def test_what_is_active(options, active):
    assert [type(each) for each in Augment(**options).active] == active


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_defaults_are_not_active_and_fit_together(kind):
    augment = Augment()
    augment.check()
    assert not kind().is_active(augment)
    assert augment.options_of(kind) == kind()


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_every_augmentation_draws_one_row_per_image_and_selects_rows(kind):
    """What a CUDA graph and micro-batches rely on: some rows alone are augmented as they are among all."""
    augment = Augment(**ALL)
    part, images = augment.options_of(kind), torch.randint(0, 256, (6, 5, 4, 3), dtype=torch.uint8)
    pipeline = AugmentPipeline(Normalise([0.0] * 3, [1.0] * 3), augment)
    draws = pipeline.draw(lambda name: host_generator(3, name), 6)
    assert all(len(tensor) == 6 for tensor in draws.tensors().values())
    info, rows = ImageInfo((5, 4)), torch.tensor([4, 1])
    whole = part.apply(images, BatchDraws(draws, slice(None)), info)
    assert torch.equal(part.apply(images[rows], BatchDraws(draws, rows), info), whole[rows])


def test_draws_keep_their_names_and_order_on_a_device():
    draws = Draws({"b": torch.zeros(2), "a": torch.ones(2, 3)})
    moved = draws.to(torch.device("cpu"))
    assert list(moved.tensors()) == ["b", "a"]
    assert torch.equal(moved["a"], draws["a"])


NEW_FILE = """
from typing import Annotated

import torch
from pydantic import Field

from tailcloud.data.augment.base import Augmentation


class Invert(Augmentation):
    invert: Annotated[float, Field(ge=0, le=1)] = 0.0

    def is_active(self, augment):
        return self.invert > 0

    def draw(self, generators, count):
        return {"inverted": generators(" invert").random(count) < self.invert}

    def apply(self, images, draws, info):
        return torch.where(draws["inverted"][:, None, None, None], 255 - images, images)
"""

USE = """
import numpy as np
import torch
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.recipe import load_recipe
from tailcloud.sampling import ShuffledSampler

augment = load_recipe("digits-lt/ce", [{"augment": {"crop_padding": 0, "flip": False, "invert": 1.0}}]).augment
data = ResidentImages(Split(np.full((4, 2, 2, 1), 55, np.uint8), np.arange(4) % 2), torch.device("cpu"))
loader = data.loader(ShuffledSampler(4), Normalise([0.0], [1 / 255]), batch=4, augment=augment)
(batch,) = loader.epoch(0)
assert (batch.images.round() == 200).all(), batch.images
assert [type(each).__name__ for each in augment.active] == ["Invert"]
print("inverted")
"""


def test_a_new_augmentation_is_one_file_and_one_name(tmp_path):
    """Its options reach the recipe, its draws the plan and its code the batches, without another change."""
    source = Path(tailcloud.__file__).parent
    shutil.copytree(source, tmp_path / "tailcloud", ignore=shutil.ignore_patterns("__pycache__"))
    room = tmp_path / "tailcloud" / "data" / "augment"
    (room / "invert.py").write_text(NEW_FILE)
    registry = (room / "__init__.py").read_text()
    assert "    Cutout,\n)" in registry
    named = registry.replace("    Cutout,\n)", "    Cutout,\n    Invert,\n)")
    (room / "__init__.py").write_text(
        named.replace("\n__all__", "\nfrom tailcloud.data.augment.invert import Invert\n__all__")
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", USE]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.stdout == "inverted\n", done.stderr
