"""Hybrid contrastive learning: both contrasts and their sum against naive float64 computations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import ContrastiveHead
from tailcloud.losses import CrossEntropyLoss
from tailcloud.objectives import Contrastive
from tailcloud.objectives.contrastive import prototypical, supervised

CLASSES, FEATURES = 4, 6
KINDS = ["supervised", "prototypical"]


def batch_of(seed, rows, second=5, classes=CLASSES):
    generator = torch.Generator().manual_seed(seed)
    first, view = (torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64) for _ in range(2))
    other = torch.randn(second, FEATURES, generator=generator, dtype=torch.float64)
    ours, theirs = (torch.randint(classes, (size,), generator=generator) for size in (rows, second))
    return Batch(first, ours, views=(view,), second=Batch(other, theirs))


def naive(head, batch, kind, temperature, share):
    embedding = head.project(torch.cat([batch.images, *batch.views])).tolist()
    target = batch.target.tolist() * 2
    if kind == "supervised":
        contrast = oracle.supervised_contrast(embedding, target, temperature)
    else:
        prototypes = [oracle.unit(row) for row in head.prototypes.tolist()]
        contrast = oracle.prototypical_contrast(embedding, target, prototypes, temperature)
    classified = oracle.cross_entropy(head(batch.second.images).tolist(), batch.second.target.tolist())
    return (1 - share**2) * contrast + share**2 * classified


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    temperature=st.floats(0.05, 2),
    share=st.floats(0, 0.99),
    rows=st.integers(1, 7),
)
def test_matches_the_oracle_with_one_pass_over_all_images(seed, kind, temperature, share, rows):
    batch, head = batch_of(seed, rows), ContrastiveHead(FEATURES, CLASSES).double()
    objective, network = Contrastive(CrossEntropyLoss(), kind=kind, temperature=temperature).double(), Flat(head)
    objective.advance(share)
    value = objective(network, batch, objective.draw(batch, torch.Generator()))
    assert value.item() == pytest.approx(naive(head, batch, kind, temperature, share), rel=1e-7, abs=1e-9)
    assert network.calls == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["one image", "one class in the batch", "one class at all"])
def test_unusual_batches_have_finite_gradients(kind, case):
    classes = 1 if case == "one class at all" else CLASSES
    batch = batch_of(1, 1 if case == "one image" else 6, classes=classes)
    batch.target.fill_(0)
    head, objective = ContrastiveHead(FEATURES, classes).double(), Contrastive(CrossEntropyLoss(), kind=kind)
    objective.advance(0.5)
    value = objective(Flat(head), batch, None)
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(p.grad).all() for p in head.parameters() if p.grad is not None)


def test_one_image_alone_in_its_class_adds_nothing():
    embedding = torch.nn.functional.normalize(torch.randn(3, 4), dim=1).requires_grad_()
    value = supervised(embedding, torch.tensor([0, 1, 2]), 0.1)
    value.backward()
    assert value == 0
    assert (embedding.grad == 0).all()


def test_gradients_match_finite_differences():
    target = torch.tensor([0, 1, 1, 2, 0])
    points = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: supervised(x, target, 0.5), points)
    assert torch.autograd.gradcheck(lambda x: prototypical(x, target), points)


@pytest.mark.parametrize("kind", KINDS)
def test_contrasts_are_computed_in_float32_while_the_network_is_not(kind):
    batch, head = batch_of(2, 6), ContrastiveHead(FEATURES, CLASSES)
    head.projection = torch.nn.Identity()
    head.prototypes = torch.nn.Parameter(torch.randn(CLASSES, FEATURES))
    objective = Contrastive(CrossEntropyLoss(), kind=kind)
    features = torch.cat([batch.images, *batch.views]).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        half = objective.contrast(Flat(head), features, batch.target.repeat(2))
    assert half.dtype == torch.float32
    assert half == objective.contrast(Flat(head), features.float(), batch.target.repeat(2))


@pytest.mark.parametrize("options", [{"kind": "both"}, {"temperature": 0.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Contrastive(CrossEntropyLoss(), **options)


def test_the_head_predicts_with_its_classifier_alone():
    head = ContrastiveHead(FEATURES, CLASSES)
    features = torch.randn(3, FEATURES)
    torch.testing.assert_close(head(features), features @ head.weight.T + head.bias)
    torch.testing.assert_close(head.project(features).norm(dim=1), torch.ones(3))
    assert head.project(features).shape == (3, 128)
    torch.testing.assert_close(head.centres().norm(dim=1), torch.ones(CLASSES))
