"""CutMix: one box per batch from each image's partner, and λ the share of pixels that an image keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles.views import pasted
from tailcloud.data.augment import Augment
from tailcloud.data.augment.box_mask import box_mask
from tailcloud.data.augment.cutmix import draw_boxes, pasted_share
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.sampling import ShuffledSampler, make_sampler

GREY_LEVELS = Normalise([0.0], [1 / 255])


def loader(size=200, **options):
    """Image i is flat and has grey level i, which is also its class."""
    images = np.broadcast_to(np.arange(size, dtype=np.uint8)[:, None, None, None], (size, 5, 8, 1)).copy()
    data = ResidentImages(Split(images, np.arange(size)), torch.device("cpu"))
    return ResidentLoader(data, ShuffledSampler(size), GREY_LEVELS, batch=16, **options)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    alpha=st.sampled_from([0.2, 1.0, 5.0]),
    seed=st.integers(0, 999),
)
def test_lambda_is_the_share_of_pixels_outside_of_the_box(shape, alpha, seed):
    boxes, outside = draw_boxes(np.random.default_rng(seed), alpha, 20, shape)
    masks = box_mask(torch.from_numpy(boxes), shape)
    np.testing.assert_allclose(outside, 1 - masks.double().mean(dim=(1, 2)).numpy(), atol=1e-6)


def test_boxes_are_as_large_as_drawn_and_anywhere():
    """Away from the border a box has the share 1 − λ, λ ~ Beta(1, 1): uniform."""
    boxes, outside = draw_boxes(np.random.default_rng(0), 1.0, 50_000, (1000, 500))
    left, top, width, height = boxes.T
    inner = (left > 0) & (top > 0) & (left + width < 1) & (top + height < 1)
    np.testing.assert_allclose(width[inner], height[inner], atol=0.003)
    small = inner & (width < 0.2)  # about as likely at any place
    assert (left + width / 2)[small].mean() == pytest.approx(0.5, abs=0.01)
    assert (top + height / 2)[small].mean() == pytest.approx(0.5, abs=0.01)
    # E over the centre of the clipped side is s − s²/4, and s² is uniform: E area = E (s − s²/4)²
    side = np.sqrt((np.arange(100_000) + 0.5) / 100_000)
    assert 1 - outside.mean() == pytest.approx(((side - side**2 / 4) ** 2).mean(), abs=0.01)


@pytest.mark.parametrize("mixing", [{"cutmix": 1.0}, {"cutmix": 1.0, "mixup": 1.0}])
def test_pixels_are_those_of_both_images_and_labels_belong_to_them(mixing):
    source, pasted = loader(**mixing), 0
    for batch in source.epoch(1):
        own, other = (each.float()[:, None, None, None] for each in (batch.target, batch.other))
        levels = batch.images.round()
        is_own, is_other = levels == own, levels == other
        different = (own != other).flatten()
        if (is_own | is_other).all():
            pasted += 1
            share = is_own[different].float().mean(dim=(1, 2, 3))
            torch.testing.assert_close(share, batch.lam.expand_as(share))
            assert (is_other[different] == is_other[different][:1]).all()  # one box for all images of a batch
        else:
            blended = batch.lam * own + (1 - batch.lam) * other
            torch.testing.assert_close(batch.images, blended.expand_as(batch.images), atol=1e-3, rtol=0)
    assert pasted == source.steps if "mixup" not in mixing else 2 < pasted < source.steps - 2


def test_half_of_the_batches_take_each_of_two_ways():
    plan = loader(20_000 // 80, mixup=1.0, cutmix=1.0)
    shares = [(plan.plan(number).boxes[:, 2] > 0).float().mean().item() for number in range(60)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.08)


def test_mixup_keeps_its_draws_beside_cutmix():
    augment = Augment(flip=True)
    alone, both, cut = (
        loader(augment=augment, **mixing).plan(2)
        for mixing in ({"mixup": 0.5}, {"mixup": 0.5, "cutmix": 1.0}, {"cutmix": 1.0})
    )
    assert torch.equal(alone.partners, both.partners)
    assert torch.equal(alone.order, cut.order)
    assert torch.equal(alone.draws["flips"], cut.draws["flips"])
    first = torch.tensor([0, *loader().ends[:-1]])
    blended = both.boxes[first, 2] == 0
    assert torch.equal(both.lambdas[blended], alone.lambdas[blended])
    assert torch.equal(both.boxes[first][~blended], cut.boxes[first][~blended])
    assert alone.boxes.shape == (0, 4)


COUNTS = [150, 40, 9, 1]
LABELS = np.repeat(np.arange(4), COUNTS)


def balanced_loader(**options):
    """Noise, whose patches come from a class-balanced sampler."""
    images = np.random.default_rng(0).integers(0, 256, (len(LABELS), 5, 8, 3), np.uint8)
    data = ResidentImages(Split(images, LABELS), torch.device("cpu"))
    settings = {"cutmix": 1.0, "cutmix_sampler": make_sampler("cb", LABELS, 4), "augment": Augment(flip=True)} | options
    return ResidentLoader(data, ShuffledSampler(len(LABELS)), Normalise([0.0] * 3, [1 / 255] * 3), batch=16, **settings)


@pytest.mark.parametrize("probability", [None, 0.5])
def test_patches_of_another_sampler_are_those_of_the_oracle(probability):
    source = balanced_loader(cutmix_probability=probability)
    plan, images, mixed = source.plan(3), source.data.images.double().numpy(), 0
    for step, batch in enumerate(source.epoch(3)):
        start, end = source.bounds(step)
        for place, row in enumerate(range(start, end)):
            partner = int(plan.partners[row])
            both = [
                images[plan.order[at]][:, ::-1] if plan.draws["flips"][at] else images[plan.order[at]]
                for at in (row, partner)
            ]
            expected, kept = pasted(*both, plan.boxes[row].double().tolist())
            np.testing.assert_allclose(batch.images[place].permute(1, 2, 0).numpy(), expected, atol=1e-2)
            assert float(batch.lam) == pytest.approx(kept)
            assert (int(batch.target[place]), int(batch.other[place])) == tuple(LABELS[plan.order[[row, partner]]])
            assert partner == (row + len(LABELS) if plan.boxes[start, 2] or probability is None else row)
        mixed += bool(plan.boxes[start, 2] > 0)
    assert mixed >= source.steps - 1 if probability is None else 2 < mixed < source.steps - 2


def test_patches_are_of_every_class_equally_often():
    source, seen = balanced_loader(), np.zeros(4)
    for number in range(40):
        order = source.plan(number).order
        assert len(order) == 2 * len(LABELS)
        seen += np.bincount(LABELS[order[len(LABELS) :]], minlength=4)
        assert np.bincount(LABELS[order[: len(LABELS)]]).tolist() == COUNTS
    np.testing.assert_allclose(seen / seen.sum(), 0.25, atol=0.02)


def test_another_sampler_of_patches_changes_no_other_draw():
    """The images of a batch, their augmentations and the boxes stay; a patch has an augmentation of its own."""
    plain, source = balanced_loader(cutmix_sampler=None).plan(2), balanced_loader().plan(2)
    first = slice(len(LABELS))
    assert torch.equal(plain.order, source.order[first])
    assert torch.equal(plain.draws["flips"], source.draws["flips"][first])
    assert not torch.equal(source.draws["flips"][first], source.draws["flips"][len(LABELS) :])
    assert torch.equal(plain.boxes, source.boxes)
    assert torch.equal(plain.lambdas, source.lambdas)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_as_many_batches_are_pasted_as_asked_and_others_are_left_alone(share):
    source = loader(cutmix=1.0, cutmix_probability=share)
    plans = [source.plan(number) for number in range(80)]
    starts = [0, *source.ends[:-1]]
    drawn = torch.cat([plan.partners[starts] != torch.tensor(starts) for plan in plans])
    assert drawn.float().mean().item() == pytest.approx(share, abs=0.06)  # a partner may be the image itself
    for batch, lam in zip(source.epoch(0), plans[0].lambdas, strict=True):
        if lam == 1:
            levels = batch.target.float()[:, None, None, None]
            torch.testing.assert_close(batch.images, levels.expand_as(batch.images), atol=1e-3, rtol=0)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_mean_share_of_pasted_pixels_is_that_of_many_boxes(alpha):
    _, outside = draw_boxes(np.random.default_rng(0), alpha, 200_000, (1000, 1000))
    assert pasted_share(alpha) == pytest.approx(1 - outside.astype(np.float64).mean(), abs=2e-3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"cutmix_sampler": "cb"},
            'cutmix_sampler = "cb" has no effect without CutMix; set cutmix = 1.0, or remove it',
        ),
        ({"cutmix_probability": 0.5}, "cutmix_probability = 0.5 has no effect without CutMix; set cutmix = 1.0"),
        (
            {"cutmix": 1.0, "cutmix_sampler": "cb", "mixup": 0.2},
            "mixup = 0.2 needs those of the same batch; set mixup = 0, or remove cutmix_sampler",
        ),
        ({"cutmix": 1.0, "cutmix_probability": 1.0, "mixup": 0.2}, "mixup = 0.2 has no effect with cutmix_probability"),
        ({"cutmix": 1.0, "cutmix_sampler": "bc"}, 'there is no part "bc"'),
        ({"cutmix": 1.0, "cutmix_probability": 1.5}, "cutmix_probability = 1.5 should be less than or equal to 1"),
        ({"cutmix": 1.0, "cutmix_probability": 0.0}, "cutmix_probability = 0.0 should be greater than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(UsageError) as refused:
        load_recipe("digits-lt/ce", [{"stage1": settings}])
    assert sentence in str(refused.value)


def test_boxes_are_drawn_anew_in_every_epoch():
    assert not torch.equal(loader(cutmix=1.0).plan(0).boxes, loader(cutmix=1.0).plan(1).boxes)
    assert torch.equal(loader(cutmix=1.0).plan(1).boxes, loader(cutmix=1.0).plan(1).boxes)


def test_boxes_fit_the_shape_that_the_model_expects():
    source = loader(cutmix=1.0, augment=Augment(crop_area=[1.0, 1.0]), shape=(3, 7))
    for batch, box in zip(source.epoch(0), source.plan(0).boxes[[0, *source.ends[:-1]]], strict=True):
        assert batch.images.shape[2:] == (3, 7)
        assert batch.lam.item() == pytest.approx(1 - box_mask(box[None], (3, 7)).float().mean().item())


def test_an_objective_without_mixing_refuses_it():
    with pytest.raises(UsageError, match=r"does not support cutmix; set stage1\.cutmix = 0"):
        load_recipe("digits-lt/hybrid-sc", [{"stage1": {"cutmix": 1.0}}])
