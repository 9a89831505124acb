"""Balanced contrastive learning: the contrast and the sum of both terms against naive float64 computations."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from helpers.three_views import FEATURES, three_views
from tailcloud.heads import BCLHead
from tailcloud.heads.bcl import CosineBCLHead
from tailcloud.losses import CrossEntropyLoss, GCLLoss, LogitAdjustmentLoss
from tailcloud.objectives import BCL
from tailcloud.objectives.bcl import balanced_contrast

CLASSES = 4


def points(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, 5, generator=generator, dtype=torch.float64), dim=1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), temperature=st.floats(0.05, 2), rows=st.integers(1, 9), classes=st.integers(1, 5))
def test_the_contrast_matches_the_oracle(seed, temperature, rows, classes):
    target = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))
    embedding, prototypes = points(rows, seed), points(classes, seed + 1)
    expected = oracle.balanced_contrast(embedding.tolist(), target.tolist(), prototypes.tolist(), temperature)
    got = balanced_contrast(embedding, target, prototypes, temperature).item()
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_objective_is_the_weighted_sum_of_both_with_one_pass_over_all_views():
    batch, head = three_views(3, 6, CLASSES), BCLHead(FEATURES, CLASSES).double()
    counts = [40, 9, 4, 1]
    objective, network = BCL(LogitAdjustmentLoss(counts), counts, FEATURES).double(), Flat(head)
    value = objective(network, batch, objective.draw(batch, torch.Generator()))
    embedding = head.project(torch.cat(batch.views)).tolist()
    prototypes = head.prototypes().tolist()
    contrast = oracle.balanced_contrast(embedding, batch.target.tolist() * 2, prototypes, 0.1)
    shift = LogitAdjustmentLoss(counts).shift.double()
    classified = oracle.cross_entropy((head(batch.images) + shift).tolist(), batch.target.tolist())
    assert value.item() == pytest.approx(2 * classified + 0.6 * contrast, rel=1e-7)
    assert network.calls == 1


def test_many_images_of_a_class_weigh_no_more_than_few():
    """Class 1 has n images that are all alike: then every anchor's term is the same whatever n is."""
    one, prototypes = points(1), points(2, 1)

    def summed(n):
        embedding, target = torch.cat([one, prototypes[1].expand(n, -1)]), torch.tensor([0] + [1] * n)
        return (n + 1) * balanced_contrast(embedding, target, prototypes, 0.1).item()

    assert summed(8) - summed(5) == pytest.approx(summed(5) - summed(2), rel=1e-9)


@pytest.mark.parametrize("case", ["one image", "one class in the batch", "one class at all"])
def test_unusual_batches_have_finite_gradients(case):
    classes = 1 if case == "one class at all" else CLASSES
    batch = three_views(1, 1 if case == "one image" else 6, classes)
    batch.target.fill_(0)
    head = BCLHead(FEATURES, classes).double()
    value = BCL(CrossEntropyLoss())(Flat(head), batch, (None, None))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(p.grad).all() for p in head.parameters() if p.grad is not None)


def test_an_empty_batch_has_no_contrast():
    value = balanced_contrast(points(0), torch.zeros(0, dtype=torch.int64), points(3), 0.1)
    assert value == 0


def test_gradients_match_finite_differences():
    target, prototypes = torch.tensor([0, 1, 1, 2, 0]), points(3, 1).requires_grad_()
    embedding = points(5).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: balanced_contrast(a, target, b, 0.5), (embedding, prototypes))


def test_the_contrast_trains_the_classifier_too_through_its_prototypes():
    batch, head = three_views(1, 6, CLASSES), BCLHead(FEATURES, CLASSES).double()
    BCL(CrossEntropyLoss(), classify_weight=0.0)(Flat(head), batch, (None, None)).backward()
    assert head.weight.grad.abs().sum() > 0
    assert head.bias.grad.abs().sum() == 0


def test_the_contrast_is_computed_in_float32_while_the_network_is_not():
    batch, head = three_views(2, 6, CLASSES), BCLHead(FEATURES, CLASSES)
    half = [images.bfloat16() for images in (batch.images, *batch.views)]
    with torch.autocast("cpu", torch.bfloat16):
        assert head.project(half[1]).dtype == head.prototypes().dtype == torch.float32
        seen = []
        head.prototype_projection.register_forward_hook(lambda _, __, output: seen.append(output.dtype))
        value = BCL(CrossEntropyLoss())(
            Flat(head), type(batch)(half[0], batch.target, views=(*half[1:],)), (None, None)
        )
    assert seen == [torch.bfloat16]  # both embeddings come from networks of the same precision
    assert value.dtype == torch.float32
    assert torch.isfinite(value)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"classify_weight": -1.0}, {"contrast_weight": -1.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        BCL(CrossEntropyLoss(), **options)


def test_a_mixed_first_view_has_both_labels_and_the_contrast_has_its_own():
    """λ·L(z, y_a) + (1 − λ)·L(z, y_b) for the first view; the further views are of y_a alone."""
    batch, head = three_views(4, 6, CLASSES), BCLHead(FEATURES, CLASSES).double()
    mixed = replace(batch, other=batch.target.roll(1), lam=torch.tensor(0.3, dtype=torch.float64))
    objective = BCL(CrossEntropyLoss(), classify_weight=1.5, contrast_weight=0.25)
    value = objective(Flat(head), mixed, objective.draw(mixed, torch.Generator()))
    logits = head(batch.images).tolist()
    classified = [oracle.cross_entropy(logits, labels.tolist()) for labels in (mixed.target, mixed.other)]
    embedding, prototypes = head.project(torch.cat(batch.views)).tolist(), head.prototypes().tolist()
    contrast = oracle.balanced_contrast(embedding, batch.target.tolist() * 2, prototypes, 0.1)
    expected = 1.5 * (0.3 * classified[0] + 0.7 * classified[1]) + 0.25 * contrast
    assert value.item() == pytest.approx(expected, rel=1e-7)


def test_clouds_lie_on_the_cosines_of_the_classifier():
    batch, head, counts = three_views(5, 6, CLASSES), CosineBCLHead(FEATURES, CLASSES).double(), [40, 9, 4, 1]
    loss = GCLLoss(counts, scale=30.0, noise=0.5).double()
    objective = BCL(loss, counts, FEATURES, contrast_weight=0.0)
    noise = objective.draw(batch, torch.Generator().manual_seed(0))
    assert noise[0] is not None
    expected = loss(head(batch.images), batch.target, epsilon=noise[0])
    assert head(batch.images).abs().max() <= 1
    assert objective(Flat(head), batch, noise).item() == pytest.approx(2 * expected.item(), rel=1e-9)
