"""Learning rates, epoch by epoch and step by step, against the published recipes."""

import math

import pytest

from helpers.oracles.optimizers import rate_by_step
from helpers.runs import Watcher, run, small_recipe
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage, resolve
from tailcloud.training.schedule import learning_rate, learning_rates


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


WAYS = {
    "cosine": {"schedule": "cosine", "warmup": 0.5},
    "steps": {"schedule": "step", "warmup": 1, "milestones": [0.55, 0.9], "decay": 0.2},
    "long warm-up": {"schedule": "cosine", "warmup": 100},
    "no warm-up": {"schedule": "step", "warmup": 0},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("epochs", "steps"), [(10, 7), (1, 5), (3, 1), (2, 100)])
def test_rates_of_steps_follow_the_formula(way, epochs, steps):
    made = stage(epochs=epochs, lr=0.3, lr_interval="step", **WAYS[way])
    found = [rate for epoch in range(epochs) for rate in learning_rates(made, epoch, steps)]
    numbers = {"lr": 0.3, "milestones": [0.8, 0.9], "decay": 0.1, **WAYS[way]}
    assert found == pytest.approx(
        [rate_by_step(n, steps=steps, epochs=epochs, **numbers) for n in range(epochs * steps)]
    )
    assert all(rate > 0 for rate in found)


def test_at_the_last_step_of_a_cosine_the_rate_is_almost_zero():
    made = stage(epochs=10, schedule="cosine", lr_interval="step")
    assert learning_rates(made, 9, 50)[-1] < 1e-5 * made.lr
    assert learning_rates(made, 9, 50)[0] == pytest.approx(learning_rate(made, 9))


@pytest.mark.parametrize("schedule", ["step", "cosine"])
def test_by_default_all_steps_of_an_epoch_have_the_rate_of_the_epoch(schedule):
    made = stage(epochs=10, schedule=schedule)
    for epoch in range(10):
        assert learning_rates(made, epoch, 3) == [learning_rate(made, epoch)] * 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"stage1": {"warmup": 0.5}}, r"stage1.warmup = 0.5 is not a number of whole epochs; set lr_interval = .step"),
        ({"stage1": {"layer_decay": 0.7, "train": "head"}}, r'layer_decay = 0.7 has no effect with train = "head"'),
        ({"stage1": {"layer_decay": 0.0}}, r"stage1.layer_decay = 0.0 should be greater than 0"),
        ({"model": {"drop_path": 0.1}}, r'model.drop_path = 0.1 works with .* not with model.backbone = "resnet'),
        ({"model": {"drop_path": 1.0}}, r"model.drop_path = 1.0 should be less than 1"),
    ],
)
def test_settings_without_an_effect_are_refused(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        small_recipe(settings)


def test_a_warm_up_of_whole_epochs_stays_a_whole_number():
    assert str(stage().warmup) == "5"
    assert stage(warmup=0.5, lr_interval="step").warmup == 0.5


def test_the_log_has_the_rate_of_the_last_step(tmp_path):
    changes = {"schedule": "cosine", "epochs": 2}
    watcher, recipe = Watcher(), small_recipe({"stage1": {**changes, "lr_interval": "step"}}, name="digits-lt/ce")
    run(tmp_path / "run", recipe, watcher)
    first, last = (line["lr"] for line in watcher.lines)
    assert 0.5 * recipe.stage1.lr < first < 0.7 * recipe.stage1.lr  # with the rate of the epoch: 1
    assert 0 < last < 0.1 * recipe.stage1.lr  # with the rate of the epoch: 0.5
