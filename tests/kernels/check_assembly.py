"""Batches that one kernel makes against the plain loader's."""

import numpy as np
import pytest
import torch

from helpers.kernel_device import DEVICE, needs_somewhere
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.kernels import batch_assembly
from tailcloud.kernels.batch_assembly import FusedLoader
from tailcloud.sampling import make_sampler

pytestmark = needs_somewhere

IMAGES, CLASSES = 19, 4


class ExactLoader(FusedLoader):
    """As it is before rounding."""

    dtype = torch.float32


def loaders(shape, kinds, *, sampler="cb", **options):
    """The same images, samples, crops and partners from loaders of several kinds."""
    random = np.random.default_rng(0)
    labels = np.sort(random.integers(0, CLASSES, IMAGES))
    images = random.integers(0, 256, (IMAGES, *shape), dtype=np.uint8)
    data = ResidentImages(Split(images, labels), DEVICE)
    normalise = Normalise([0.5, 0.4, 0.3][: shape[2]], [0.25, 0.2, 0.3][: shape[2]], DEVICE)
    chosen = make_sampler(sampler, labels, CLASSES)
    return [kind(data, chosen, normalise, batch=8, seed=3, **options) for kind in kinds]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((7, 5, 3), {"augment": Augment(crop_padding=2, flip=True), "mixup": 1.0}),
        ((6, 6, 1), {}),
        ((5, 8, 1), {"augment": Augment(crop_padding=4), "sampler": "ib"}),
        ((4, 4, 3), {"augment": Augment(flip=True)}),
        ((3, 4, 3), {"mixup": 0.4, "sampler": "ib"}),
        ((19, 18, 3), {"augment": Augment(crop_padding=1, flip=True), "mixup": 0.4}),
        ((7, 5, 3), {"augment": Augment(crop_padding=2, flip=True, cutout=4)}),
        ((6, 6, 3), {"augment": Augment(cutout=3), "mixup": 1.0}),
        ((5, 6, 1), {"augment": Augment(flip=True), "cutmix": 1.0}),
        ((6, 5, 3), {"augment": Augment(crop_padding=1, flip=True, color_jitter=[0.4, 0.3, 0.2])}),
        ((6, 6, 3), {"augment": Augment(flip=True, crop_area=[0.2, 1.0], cutout=2)}),
    ],
    ids=[
        "all",
        "nothing",
        "crops",
        "flips",
        "mixing",
        "several programs an image",
        "holes",
        "mixed holes",
        "cutmix",
        "colours",
        "resized crops",
    ],
)
def test_every_batch_of_an_epoch_is_the_plain_one(shape, options):
    plain, fused = loaders(shape, [ResidentLoader, ExactLoader], **options)
    batches = list(zip(plain.epoch(1), fused.epoch(1), strict=True))
    assert [len(batch.target) for batch, _ in batches] == [8, 8, 3]
    for expected, batch in batches:
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(batch.images, expected.images, rtol=1e-6, atol=1e-6)
        assert torch.equal(batch.target, expected.target)
        assert (batch.other is None) == (expected.other is None) == (not {"mixup", "cutmix"} & options.keys())
        if batch.other is not None:
            assert torch.equal(batch.other, expected.other)
            assert torch.equal(batch.lam, expected.lam)


def test_the_last_program_of_an_image_writes_nothing_past_it():
    assert 19 * 18 * 3 % batch_assembly.BLOCK
    (fused,) = loaders((19, 18, 3), [ExactLoader], augment=Augment(crop_padding=1))
    plan, rows = fused.plan(0), torch.arange(4, device=DEVICE)
    whole = fused.assemble(plan, rows, plan.lambdas[0]).images
    assert torch.equal(fused.assemble(plan, rows[:2], plan.lambdas[0]).images, whole[:2])


def test_batches_are_rounded_once():
    plain, fused = loaders((5, 5, 3), [ResidentLoader, FusedLoader], augment=Augment(flip=True), mixup=1.0)
    for expected, batch in zip(plain.epoch(0), fused.epoch(0), strict=True):
        assert batch.images.dtype == torch.bfloat16
        torch.testing.assert_close(batch.images.float(), expected.images, rtol=2**-8, atol=1e-6)
        assert batch.lam.dtype == torch.float32


def test_rows_may_begin_anywhere():
    """A captured step moves on through its epoch."""
    plain, fused = loaders((4, 4, 1), [ResidentLoader, ExactLoader], augment=Augment(crop_padding=1, flip=True))
    plan, rows = plain.plan(2), torch.arange(5, 11, device=DEVICE)
    lam = plan.lambdas[0]
    expected, batch = plain.assemble(plan, rows, lam), fused.assemble(plan, rows, lam)
    torch.testing.assert_close(batch.images, expected.images, rtol=1e-6, atol=1e-6)
    assert torch.equal(batch.target, expected.target)


@pytest.mark.parametrize("policy", [{"auto_augment": "cifar"}, {"rand_augment": 2}, {"trivial_augment": True}], ids=str)
@pytest.mark.parametrize("mixing", [{}, {"mixup": 1.0}, {"cutmix": 1.0}], ids=str)
def test_batches_of_a_policy_are_the_plain_ones_but_for_a_few_pixels(policy, mixing):
    """A pixel at the border of a rotated image may be inside of it by one rounding and outside by another."""
    augment = Augment(crop_padding=2, flip=True, cutout=3, **policy)
    plain, fused = loaders((8, 8, 3), [ResidentLoader, ExactLoader], augment=augment, **mixing)
    for expected, batch in zip(plain.epoch(1), fused.epoch(1), strict=True):
        far = (batch.images - expected.images).abs() > 1e-3
        assert far.float().mean() < 0.01
        assert torch.equal(batch.target, expected.target)


def test_partners_of_another_sampler_are_augmented_too():
    augment = Augment(crop_padding=2, flip=True, auto_augment="cifar", cutout=3)
    others = {"cutmix": 1.0, "cutmix_sampler": make_sampler("ib", np.arange(IMAGES) % CLASSES, CLASSES)}
    plain, fused = loaders((8, 8, 3), [ResidentLoader, ExactLoader], augment=augment, **others)
    for expected, batch in zip(plain.epoch(0), fused.epoch(0), strict=True):
        assert ((batch.images - expected.images).abs() > 1e-3).float().mean() < 0.01
        assert torch.equal(batch.other, expected.other)
