"""CutMix: one box per batch from each image's partner, and λ the share of pixels that an image keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcloud.data.augment import Augment
from tailcloud.data.augment.box_mask import box_mask
from tailcloud.data.augment.cutmix import draw_boxes
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.sampling import ShuffledSampler

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
