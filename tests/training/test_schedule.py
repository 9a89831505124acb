"""Learning rates, epoch by epoch, against the published recipes."""

import math

import pytest

from tailcloud.recipe import Stage, resolve
from tailcloud.training.schedule import learning_rate


def stage(**options):
    return Stage.model_validate({"loss": "ce", "epochs": 200} | options)


def test_stage_one_of_the_released_code():
    rates = [learning_rate(resolve({"method": "gcl-official"}).stage1, e) for e in range(200)]
    expected = [0.02, 0.04, 0.06, 0.08] + [0.1] * 156 + [0.01] * 20 + [0.001] * 20
    assert rates == pytest.approx(expected)


def test_stage_two_of_the_released_code():
    rates = [learning_rate(resolve({"method": "gcl-official"}).stage2, e) for e in range(30)]
    assert rates == pytest.approx([0.001 * (1 + math.cos(math.pi * e / 30)) for e in range(30)])
    assert (rates[0], rates[10], rates[15]) == pytest.approx((0.002, 0.0015, 0.001))
    assert rates[29] == pytest.approx(5.5e-6, rel=0.01)


@pytest.mark.parametrize("epochs", [1, 2, 3, 10])
def test_short_runs_keep_their_shape(epochs):
    rates = [learning_rate(stage(epochs=epochs), e) for e in range(epochs)]
    assert max(rates) == pytest.approx(0.1)
    assert all(rate > 0 for rate in rates)
    if epochs == 10:
        assert rates == pytest.approx([0.05, 0.1] + [0.1] * 6 + [0.01, 0.001])
