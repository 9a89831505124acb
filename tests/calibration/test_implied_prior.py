"""Which mix of classes each method's model assumes."""

import numpy as np
import pytest

from tailcloud.calibration.priors import prior_name, train_prior
from tailcloud.calibration.run_calibration import implied_prior
from tailcloud.data.augment.cutmix import draw_boxes
from tailcloud.recipe import load_recipe, shipped

COUNTS = [120, 40, 9, 2]
AS_IN_TRAINING = {"ce", "ce-mixup", "focal", "ldam"}


def assumed(method, *settings, counts=COUNTS):
    return implied_prior(load_recipe(f"digits-lt/{method}", list(settings)), counts)


@pytest.mark.parametrize("method", sorted(shipped("methods")))
def test_every_method_says_which_mix_its_outputs_assume(method):
    prior = assumed(method)
    assert prior.sum() == pytest.approx(1)
    assert (prior > 0).all()
    expected = "other" if method == "disalign" else "train" if method in AS_IN_TRAINING else "uniform"
    assert prior_name(prior, COUNTS) == expected


def shares(raw):
    return np.array(raw) / sum(raw)


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("logit-adjust", {"stage1": {"loss": {"tau": 0.5}}}, [n**0.5 for n in COUNTS]),
        ("logit-adjust", {"stage1": {"sampler": "cb"}}, [1 / n for n in COUNTS]),
        ("logit-adjust-posthoc", {"stage2": {"head_transform": {"tau": 2.0}}}, [1 / n for n in COUNTS]),
        ("ce", {"stage1": {"sampler": "sqrt"}}, [n**0.5 for n in COUNTS]),
        ("ce", {"stage1": {"sampler": "pb"}}, [1, 1, 1, 1]),
        ("ce", {"stage1": {"loss": {"weights": "inverse", "power": 0.5}}}, [n**0.5 for n in COUNTS]),
        ("ce", {"stage1": {"loss": {"weights": "inverse", "defer": 1.0}}}, COUNTS),
        ("disalign", {}, [n**-0.2 for n in COUNTS]),
        ("vs", {"stage1": {"loss": {"tau": 0.5}}}, [n**0.5 for n in COUNTS]),
        ("vs", {"stage1": {"sampler": "cb"}}, [1 / n for n in COUNTS]),
        ("gcl-logit-adjust", {"stage1": {"loss": {"tau": 0.5}}}, [n**0.5 for n in COUNTS]),
        ("gcl-logit-adjust", {"stage1": {"sampler": "cb"}}, [1 / n for n in COUNTS]),
        ("gcl-logit-adjust", {"stage1": {"loss": {"tau": 0.0}}}, [1, 1, 1, 1]),
        ("ce", {"stage1": {"loss": {"smoothing": 0.1}}}, COUNTS),
        ("ce", {"stage1": {"cutmix": 1.0}}, COUNTS),
    ],
)
def test_samplers_weights_and_adjustments_move_the_mix(method, settings, expected):
    np.testing.assert_allclose(assumed(method, settings), shares(expected), rtol=1e-5)


@pytest.mark.parametrize("probability", [None, 0.5])
@pytest.mark.parametrize(("method", "power"), [("ce", 0), ("logit-adjust", 1)])
def test_pasted_images_of_another_sampler_move_the_mix(method, power, probability):
    """As large a share of all labels as of all pixels is that of the other sampler."""
    cutmix = {"cutmix": 0.5, "cutmix_sampler": "cb", "cutmix_probability": probability}
    settings = {"stage1": {name: value for name, value in cutmix.items() if value is not None}}
    _, outside = draw_boxes(np.random.default_rng(0), 0.5, 400_000, (1000, 1000))
    pasted = (probability or 1) * (1 - outside.astype(np.float64).mean())
    shown = (1 - pasted) * shares(COUNTS) + pasted / len(COUNTS)
    expected = shares([share / n**power for share, n in zip(shown, COUNTS, strict=True)])
    np.testing.assert_allclose(assumed(method, settings), expected, rtol=5e-3)


def test_an_absent_class_is_taken_for_one_image_and_is_never_impossible():
    for method in ("ce", "crt", "cb-ce", "logit-adjust-posthoc"):
        assert (assumed(method, counts=[50, 0, 3]) > 0).all()
    np.testing.assert_allclose(assumed("ce", counts=[50, 0, 3]), train_prior([50, 1, 3]))
