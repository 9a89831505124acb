"""The GCL loss against a naive float64 oracle, and its edge cases."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import clouds
from tailcloud.errors import TailcloudWarning
from tailcloud.losses import GCLLoss, LogitAdjustmentLoss
from tailcloud.losses.gcl import focal_factor

COUNTS = [500, 120, 30, 5, 1]


def random_batch(seed, rows=7, counts=COUNTS, granularity="entry"):
    generator = torch.Generator().manual_seed(seed)
    cosine = torch.rand(rows, len(counts), generator=generator, dtype=torch.float64) * 2 - 1
    target = torch.randint(len(counts), (rows,), generator=generator)
    epsilon = GCLLoss(counts, granularity=granularity).draw(rows, torch.device("cpu"), generator).double()
    return cosine, target, epsilon


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(1, 64),
    noise=st.floats(0, 2),
    margin=st.sampled_from([0.0, 0.1, 0.5]),
    focal=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    strategy=st.sampled_from(["log", "cos", "pow3", "pow4"]),
    granularity=st.sampled_from(["entry", "sample", "class"]),
    tau=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_matches_the_oracle(seed, scale, noise, margin, focal, strategy, granularity, tau):
    cosine, target, epsilon = random_batch(seed, granularity=granularity)
    options = {"scale": scale, "noise": noise, "margin": margin, "focal": focal, "strategy": strategy, "tau": tau}
    loss = GCLLoss(COUNTS, granularity=granularity, **options)(cosine, target, epsilon=epsilon)
    expected = clouds.gcl_loss(cosine.tolist(), target.tolist(), epsilon.tolist(), COUNTS, **options)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("margin", "tau"), [(0.0, 0.0), (0.1, 0.0), (0.1, 1.0)])
def test_gradients_match_finite_differences(margin, tau):
    cosine, target, epsilon = random_batch(3)
    loss = GCLLoss(COUNTS, margin=margin, tau=tau, scale=8.0)
    assert torch.autograd.gradcheck(lambda c: loss(c, target, epsilon=epsilon), cosine.requires_grad_())


def test_no_gradient_flows_through_the_focal_factor():
    cosine, target, epsilon = random_batch(4, rows=1)
    plain, focal = (GCLLoss(COUNTS, focal=f, scale=8.0) for f in (0.0, 2.0))
    gradients = []
    for loss in (plain, focal):
        leaf = cosine.clone().requires_grad_()
        loss(leaf, target, epsilon=epsilon).backward()
        gradients.append(leaf.grad)
    cross_entropy = plain(cosine, target, epsilon=epsilon)
    factor = (1 - math.exp(-cross_entropy.item())) ** 2
    torch.testing.assert_close(gradients[1], factor * gradients[0])


def test_noise_is_half_normal_clamped_and_owned():
    loss = GCLLoss(COUNTS)
    device = torch.device("cpu")
    drawn = loss.draw(200_000, device, torch.Generator().manual_seed(0))
    assert drawn.shape == (200_000, 5)
    assert drawn.min() >= 0
    assert drawn.max() == 1
    assert drawn.mean().item() == pytest.approx(0.26571, abs=5e-4)
    assert (drawn == 1).float().mean().item() == pytest.approx(0.0027, abs=2e-4)
    again = loss.draw(200_000, device, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


@pytest.mark.parametrize(("granularity", "shape"), [("entry", (6, 5)), ("sample", (6, 1)), ("class", (1, 5))])
def test_granularity_decides_what_shares_a_draw(granularity, shape):
    assert GCLLoss(COUNTS, granularity=granularity).draw(6, torch.device("cpu")).shape == shape


def test_without_clouds_it_is_logit_adjustment_on_scaled_cosines():
    cosine, target, epsilon = random_batch(9)
    clouded = GCLLoss(COUNTS, noise=0.0, tau=1.5)(cosine, target, epsilon=epsilon)
    torch.testing.assert_close(clouded, LogitAdjustmentLoss(COUNTS, scale=30.0, tau=1.5)(cosine, target))


def test_the_sign_of_epsilon_does_not_matter():
    cosine, target, epsilon = random_batch(5)
    loss = GCLLoss(COUNTS)
    assert torch.equal(loss(cosine, target, epsilon=epsilon), loss(cosine, target, epsilon=-epsilon))


def test_a_cloud_only_ever_lowers_and_never_the_head():
    cosine, _, epsilon = random_batch(6)
    loss = GCLLoss(COUNTS)
    lowered = loss.logits(cosine) - loss.cloud(cosine, epsilon)
    assert (lowered >= 0).all()
    assert (lowered[:, 0] == 0).all()


@pytest.mark.parametrize("counts", [[9], [9, 9, 9], [100, 1], [3_000_000, 7, 1]])
@pytest.mark.parametrize("focal", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unusual_counts_and_types_stay_finite(counts, focal, dtype):
    cosine = (torch.eye(len(counts)).repeat(2, 1) * 2 - 1).to(dtype).requires_grad_()
    target = torch.arange(len(counts)).repeat(2)
    value = GCLLoss(counts, focal=focal, margin=0.1)(cosine, target)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(cosine.grad).all()
    if len(counts) == 1:
        assert value == 0


def test_balanced_counts_are_scaled_cosine_cross_entropy():
    cosine, target, _ = random_batch(7, counts=[5, 5, 5])
    expected = torch.nn.functional.cross_entropy(30 * cosine, target)
    torch.testing.assert_close(GCLLoss([5, 5, 5])(cosine, target), expected)


def test_an_absent_class_is_a_class_of_one_image():
    cosine, target, epsilon = random_batch(8, counts=[50, 10, 1])
    with pytest.warns(TailcloudWarning):
        absent = GCLLoss([50, 10, 0])
    assert torch.equal(absent(cosine, target, epsilon=epsilon), GCLLoss([50, 10, 1])(cosine, target, epsilon=epsilon))


def test_an_empty_batch_costs_nothing():
    value = GCLLoss(COUNTS)(torch.zeros(0, 5, requires_grad=True), torch.zeros(0, dtype=torch.long))
    assert value == 0


def test_a_rounding_error_below_zero_does_not_become_nan():
    loss = GCLLoss([10, 1], focal=0.5, scale=100.0)
    value = loss(torch.tensor([[1.0, -1.0]]), torch.tensor([0]))
    assert torch.isfinite(value)
    assert torch.isfinite(focal_factor(torch.tensor([-1e-8]), 0.5)).all()


@pytest.mark.parametrize(
    "options", [{"scale": 0.0}, {"noise": -1.0}, {"margin": -0.1}, {"focal": -1.0}, {"granularity": "image"}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        GCLLoss(COUNTS, **options)
