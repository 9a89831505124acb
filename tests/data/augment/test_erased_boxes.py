"""Cutout and random erasing: boxes of the right size at the right place, and nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcloud.data.augment.base import BatchDraws, Draws, ImageInfo
from tailcloud.data.augment.box_mask import box_mask
from tailcloud.data.augment.cutout import Cutout, cut_out
from tailcloud.data.augment.random_erasing import RandomErasing, erased_boxes
from tailcloud.randomness import host_generator


def drawn(augmentation, count):
    arrays = augmentation.draw(lambda part: host_generator(0, part), count)
    return Draws({name: torch.from_numpy(array) for name, array in arrays.items()})


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    side=st.integers(1, 14),
    place=st.tuples(*[st.floats(0, 1, exclude_max=True, width=32)] * 2),
)
def test_a_square_is_cut_out_around_a_pixel_and_clipped(shape, side, place):
    images = torch.full((1, *shape, 3), 7, dtype=torch.uint8)
    expected = np.full(shape, 7)
    row, column = (int(np.float32(where) * np.float32(side)) for where, side in zip(place[::-1], shape, strict=True))
    top, left = row - side // 2, column - side // 2
    expected[max(top, 0) : top + side, max(left, 0) : left + side] = 0
    got = cut_out(images, torch.tensor([place]), side)
    assert got.dtype == torch.uint8
    assert np.array_equal(got[0].numpy(), np.repeat(expected[..., None], 3, axis=2))


def test_centres_of_cutout_are_anywhere():
    holes = drawn(Cutout(cutout=4), 20_000)["holes"]
    assert holes.mean(dim=0).tolist() == pytest.approx([0.5, 0.5], abs=0.01)
    assert holes.std(dim=0).tolist() == pytest.approx([12**-0.5] * 2, abs=0.01)


@pytest.mark.parametrize("aspect", [1.0, 2.0, 0.5])
def test_boxes_of_random_erasing_have_the_areas_and_ratios_of_the_paper(aspect):
    draws = drawn(RandomErasing(random_erasing=0.25), 20_000)
    left, top, width, height = erased_boxes(draws["erased_shapes"], draws["erased_places"], aspect).unbind(1)
    assert draws["erased"].float().mean().item() == pytest.approx(0.25, abs=0.015)
    assert min(left.min(), top.min()) >= 0
    assert max((left + width).max(), (top + height).max()) <= 1 + 1e-6
    whole = (width < 1) & (height < 1)
    ratio, area = (aspect * width / height)[whole], (width * height)[whole]
    assert (ratio.min() >= 0.3 - 1e-4) & (ratio.max() <= 1 / 0.3 + 1e-4)
    assert (area.min() >= 0.02 - 1e-5) & (area.max() <= 1 / 3 + 1e-5)
    if aspect == 1:
        assert whole.float().mean() > 0.99
        assert area.mean().item() == pytest.approx((0.02 + 1 / 3) / 2, abs=0.005)


@pytest.mark.parametrize("channels", [1, 3])
def test_boxes_have_one_colour_and_the_rest_stays(channels):
    images = torch.randint(0, 256, (40, 12, 9, channels), dtype=torch.uint8)
    draws = drawn(RandomErasing(random_erasing=0.5), 40)
    got = RandomErasing(random_erasing=0.5).apply(images, BatchDraws(draws, slice(None)), ImageInfo((12, 9)))
    boxes = erased_boxes(draws["erased_shapes"], draws["erased_places"], 9 / 12)
    for row in range(40):
        mask = box_mask(boxes[row : row + 1], (12, 9))[0] & draws["erased"][row]
        assert torch.equal(got[row][~mask], images[row][~mask].float())
        assert (got[row][mask] == draws["erased_colours"][row, :channels]).all()
    assert 0.2 < (got != images).any(dim=3).any(dim=2).any(dim=1).float().mean() < 0.8


def test_nothing_is_drawn_where_they_are_off():
    for off in (Cutout(), RandomErasing()):
        assert off.draw(pytest.fail, 3) == {}
