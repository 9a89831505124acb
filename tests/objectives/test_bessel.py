"""log (I_ν(x) / x^ν) against SciPy and its series, and its derivative against finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive

from helpers.oracles.objectives import log_bessel as naive
from tailcloud.objectives.bessel import LogBessel, log_bessel


def squares(*values):
    return torch.tensor(values, dtype=torch.float64).square()


@settings(max_examples=200, deadline=None)
@given(st.floats(-4, 5.1), st.sampled_from([63, 31]))
def test_values_and_ratios_are_those_of_scipy(logarithm, order):
    x = 10**logarithm
    value, ratio = log_bessel(squares(x), order)
    assert value.item() == pytest.approx(naive(order, x), rel=1e-10, abs=2e-8)
    if x > 1:
        assert ratio.item() * x == pytest.approx(ive(order + 1, x) / ive(order, x), rel=2e-8)


def test_it_is_finite_at_zero_and_beyond_the_largest_concentration():
    value, ratio = log_bessel(squares(0.0, 1e5 + 10, 1e7), 63)
    assert value[0].item() == pytest.approx(-63 * math.log(2) - math.lgamma(64), rel=1e-14)
    assert ratio[0].item() == pytest.approx(1 / 128, rel=1e-14)  # I_{ν+1} / I_ν is x / (2ν + 2) there
    assert torch.isfinite(value).all()
    assert 0.99 < ratio[2].item() * 1e7 < 1


def test_gradients_match_finite_differences():
    points = squares(0.1, 1.0, 9.0, 10.0, 60.0, 300.0).requires_grad_()
    assert torch.autograd.gradcheck(lambda square: LogBessel.apply(square, 63), points, atol=1e-8)
    assert torch.autograd.gradcheck(lambda square: LogBessel.apply(square, 3), points[:4], atol=1e-6)


def test_the_derivative_by_x_is_the_ratio_of_two_orders():
    x = torch.tensor([0.5, 20.0, 5e3, 1e5], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(LogBessel.apply(x.square(), 63).sum(), x)
    for got, point in zip(slope.tolist(), x.tolist(), strict=True):
        assert got == pytest.approx(ive(64, point) / ive(63, point), rel=2e-8)


def test_an_empty_tensor_stays_empty():
    assert LogBessel.apply(torch.zeros(0, 4, dtype=torch.float64), 63).shape == (0, 4)
