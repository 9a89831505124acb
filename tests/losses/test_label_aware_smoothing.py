"""How much each class is smoothed, and what that does to the best output."""

import pytest
import torch

from tailcloud.losses import CrossEntropyLoss, LabelAwareSmoothingLoss
from tailcloud.losses.class_weights import class_weights
from tailcloud.losses.label_aware_smoothing import smoothing

COUNTS = [500, 120, 30, 5, 1]
FORMS = ["concave", "linear", "convex"]


@pytest.mark.parametrize("form", FORMS)
def test_smoothing_falls_from_head_to_tail(form):
    made = smoothing(COUNTS, form, 0.4, 0.1)
    assert (made[0], made[-1]) == pytest.approx((0.4, 0.1))
    assert (made[:-1] > made[1:]).all()
    assert smoothing([7, 7], form, 0.4, 0.1).tolist() == pytest.approx([0.4, 0.4])


def test_the_forms_lie_above_one_another():
    concave, linear, convex = (smoothing(COUNTS, form, 0.4, 0.1)[1:-1] for form in FORMS)
    assert (concave > linear).all()
    assert (linear > convex).all()


def test_without_smoothing_it_is_cross_entropy():
    output, target = torch.randn(6, 5), torch.randint(5, (6,))
    plain = LabelAwareSmoothingLoss(COUNTS, smooth_head=0.0, scale=3.0)(output, target)
    torch.testing.assert_close(plain, CrossEntropyLoss(scale=3.0)(output, target))


def test_equal_smoothing_is_pytorchs():
    output, target = torch.randn(6, 5), torch.randint(5, (6,))
    expected = torch.nn.functional.cross_entropy(output, target, label_smoothing=0.2)
    same = LabelAwareSmoothingLoss(COUNTS, smooth_head=0.2, smooth_tail=0.2)
    torch.testing.assert_close(same(output, target), expected)


def test_a_power_sharpens_the_weights_and_leaves_an_absent_class_without():
    plain, sharp, none = (class_weights([90, 9, 1, 0], "inverse", power=power) for power in (1.0, 1.2, 0.0))
    assert plain.tolist() == class_weights([90, 9, 1, 0], "inverse").tolist()
    assert sharp[2] / sharp[0] == pytest.approx(90**1.2)
    assert sharp.sum() == pytest.approx(3)
    assert none.tolist() == [1, 1, 1, 0]
