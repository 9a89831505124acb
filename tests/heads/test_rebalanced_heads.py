"""The heads that second stages make: against naive loops, at their edges, and whole after saving."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from helpers.oracles import heads as oracles
from tailcloud.heads import HEADS, CausalHead, NearestMeanHead

FEATURES, CLASSES = 6, 4
EACH_SEED = given(seed=st.integers(0, 10**6))


def random_head(name, seed=0):
    """A head with random numbers everywhere, in float64 and evaluation mode, and features for it."""
    generator = torch.Generator().manual_seed(seed)
    head = HEADS[name](FEATURES, CLASSES).double().eval()
    for value in head.state_dict().values():
        value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return head, torch.randn(5, FEATURES, generator=generator, dtype=torch.float64)


def inner_outputs(head, features):
    weight = head.inner.weight.tolist()
    if head.cosine:
        return oracles.cosine(features, weight)
    return oracles.linear(features, weight, head.inner.bias.tolist())


def assert_close(outputs, expected):
    torch.testing.assert_close(outputs, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("name", ["scaled-linear", "scaled-cosine"])
@settings(max_examples=10, deadline=None)
@EACH_SEED
def test_a_scaled_head_scales_and_shifts(name, seed):
    head, features = random_head(name, seed)
    inner = inner_outputs(head, features.tolist())
    assert_close(head(features), oracles.scaled(inner, head.scale.tolist(), head.shift.tolist()))


@pytest.mark.parametrize("name", ["disalign-linear", "disalign-cosine"])
@settings(max_examples=10, deadline=None)
@EACH_SEED
def test_an_aligned_head_aligns(name, seed):
    head, features = random_head(name, seed)
    inner, align = inner_outputs(head, features.tolist()), head.align
    v, c = align.confidence.weight[0].tolist(), align.confidence.bias.item()
    expected = oracles.disalign(features.tolist(), inner, align.alpha.tolist(), align.beta.tolist(), v, c)
    assert_close(head(features), expected)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.floats(0, 3))
def test_a_causal_head_takes_the_drift_off_in_evaluation_alone(seed, alpha):
    head, features = random_head("causal", seed)
    head.alpha.fill_(alpha)
    rows, weight, mean = features.tolist(), head.weight.tolist(), head.mean.tolist()
    assert_close(head(features), oracles.causal(rows, weight, mean, head.alpha.item()))
    assert_close(head.train()(features), oracles.causal(rows, weight, mean, 0.0))


def test_a_causal_head_follows_the_mean_in_place_and_in_training_alone():
    head = CausalHead(FEATURES, CLASSES)
    place, batches = head.mean.data_ptr(), [torch.randn(rows, FEATURES) for rows in (3, 1, 4)]
    for batch in batches:
        head(batch.requires_grad_()).sum().backward()
    expected = torch.tensor(oracles.moving_mean([batch.tolist() for batch in batches]))
    torch.testing.assert_close(head.mean, expected)
    head.eval()(batches[0])
    torch.testing.assert_close(head.mean, expected)
    assert head.mean.data_ptr() == place
    head.train()(torch.zeros(0, FEATURES))
    torch.testing.assert_close(head.mean, 0.9 * expected)


def test_a_causal_head_that_never_drifted_takes_nothing_off():
    head, features = random_head("causal")
    head.mean.zero_()
    head.alpha.fill_(0.0)
    plain = head(features)
    head.alpha.fill_(2.0)
    assert torch.equal(head(features), plain)
    assert plain.abs().max() < 1
    assert (head(torch.zeros(1, FEATURES, dtype=torch.float64)) == 0).all()


def test_of_a_feature_that_is_all_drift_alpha_one_leaves_nothing():
    head, _ = random_head("causal")
    head.alpha.fill_(1.0)
    torch.testing.assert_close(head(3 * head.mean[None]), torch.zeros(1, CLASSES, dtype=torch.float64))


def test_a_causal_head_has_two_parts_of_an_odd_number_of_features():
    assert CausalHead(5, 3)(torch.randn(2, 5)).shape == (2, 3)


def test_the_nearest_mean_has_the_largest_output_and_an_infinite_one_the_smallest():
    head = NearestMeanHead(2, 3)
    head.means.copy_(torch.tensor([[0.0, 0.0], [4.0, 0.0], [torch.inf, torch.inf]]))
    outputs = head(torch.tensor([[1.0, 0.0], [3.0, 1.0]]))
    torch.testing.assert_close(outputs, torch.tensor([[-1, -9, -torch.inf], [-10, -2, -torch.inf]]))
    assert outputs.softmax(dim=1)[:, 2].tolist() == [0, 0]


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_is_built_without_numbers_and_saved_whole(name):
    """As ``tailcloud.load`` does it: on the meta device, filled from a file."""
    head, features = random_head(name)
    with torch.device("meta"):
        again = HEADS[name](FEATURES, CLASSES)
    again.load_state_dict(load(save(head.state_dict())), assign=True)
    assert torch.equal(again.eval()(features), head(features))


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_computes_half_precision_features_and_one_class(name):
    head = HEADS[name](FEATURES, 1)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = head(torch.randn(2, FEATURES).bfloat16())
    assert outputs.shape == (2, 1)
    assert torch.isfinite(outputs).all()


@pytest.mark.parametrize(
    ("name", "start"),
    [("scaled-linear", 1.0), ("scaled-cosine", 1.0), ("disalign-linear", 1.5), ("disalign-cosine", 1.5)],
)
def test_scaled_heads_start_as_their_inner_one_and_aligned_ones_as_published(name, start):
    """σ = sigmoid(0) = 1/2 for a feature whose entries sum to 0."""
    head = HEADS[name](FEATURES, CLASSES)
    features = torch.randn(3, FEATURES)
    features -= features.mean(dim=1, keepdim=True)
    torch.testing.assert_close(head(features), start * head.inner(features))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_compiles_whole(name):
    head, features = random_head(name)
    torch.testing.assert_close(torch.compile(head, fullgraph=True, backend="aot_eager")(features), head(features))
