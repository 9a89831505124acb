"""Probabilistic contrastive learning: scores, estimates over epochs and the sum of both terms, against naive loops."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from helpers.three_views import FEATURES, three_views
from tailcloud.errors import TailcloudWarning
from tailcloud.heads import ProCoHead
from tailcloud.losses import CrossEntropyLoss, LogitAdjustmentLoss
from tailcloud.objectives import ProCo
from tailcloud.objectives.proco import LARGEST_KAPPA, contrast_scores, mean_parameters

COUNTS = [40, 9, 4, 1]
CLASSES = len(COUNTS)


def points(rows, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, 128, generator=generator, dtype=torch.float64), dim=1).to(dtype)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.floats(0, 0.999), min_size=1, max_size=4),
    temperature=st.floats(0.05, 2),
)
def test_scores_match_the_oracle(seed, lengths, temperature):
    means = torch.tensor(lengths, dtype=torch.float64)[:, None] * points(len(lengths), seed + 1)
    got = contrast_scores(points(3, seed), means, temperature)
    expected = oracle.probabilistic_scores(points(3, seed).tolist(), means.tolist(), temperature)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-7, atol=1e-6)


def test_a_class_of_one_image_has_the_largest_concentration_also_where_rounding_makes_it_longer_than_one():
    one = points(1)
    for mean in (one, one * (1 + 1e-7), one * (1 - 1e-9)):
        assert mean_parameters(mean).norm().item() == pytest.approx(LARGEST_KAPPA)
        scores = contrast_scores(torch.cat([one, -one]), mean, 0.1)
        assert scores.flatten().tolist() == pytest.approx([10, -10], abs=0.1)  # v·μ / T


def test_a_class_that_was_not_seen_is_uniform_and_has_no_gradient():
    embedding = points(3).requires_grad_()
    scores = contrast_scores(embedding, torch.zeros(2, 128, dtype=torch.float64), 0.1)
    assert scores.unique().numel() == 1
    (gradient,) = torch.autograd.grad(scores.sum(), embedding)
    along = gradient - (gradient * embedding).sum(dim=1, keepdim=True) * embedding  # on the sphere
    assert along.abs().max() < 1e-12


def test_opposite_to_a_mean_scores_and_gradients_are_finite():
    mean = 0.0775 * points(1)  # κ is about 10 = 1 / T, so κ̃ is about 0
    located = mean_parameters(mean)
    embedding = (-located / located.norm()).requires_grad_()
    scores = contrast_scores(embedding, mean, 1 / located.norm().item())
    (gradient,) = torch.autograd.grad(scores.sum(), embedding)
    assert torch.isfinite(scores).all()
    assert torch.isfinite(gradient).all()


def test_gradients_match_finite_differences():
    means = torch.tensor([[0.9], [0.5], [0.0]], dtype=torch.float64) * points(3, 1)
    embedding = points(2).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: contrast_scores(v, means, 0.1), embedding, atol=1e-5)


def test_float32_scores_are_those_of_float64():
    means = torch.tensor([[0.99], [0.7], [0.1]], dtype=torch.float64) * points(3, 1)
    single = contrast_scores(points(4, dtype=torch.float32), means.float(), 0.1)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), contrast_scores(points(4), means, 0.1), rtol=1e-4, atol=1e-4)


def test_the_objective_matches_the_oracle_with_one_pass_over_all_views():
    batch, head = three_views(3, 6, CLASSES), ProCoHead(FEATURES, CLASSES).double()
    objective, network = ProCo(LogitAdjustmentLoss(COUNTS), COUNTS, FEATURES).double(), Flat(head)
    value = objective(network, batch, objective.draw(batch, torch.Generator()))
    embedding, target = head.project(torch.cat(batch.views)).tolist(), batch.target.tolist() * 2
    shift = LogitAdjustmentLoss(COUNTS).shift.double()
    scores = oracle.probabilistic_scores(embedding, oracle.class_means(embedding, target, CLASSES), 0.1)
    contrast = oracle.cross_entropy((torch.tensor(scores) + shift).tolist(), target)
    classified = oracle.cross_entropy((head(batch.images) + shift).tolist(), batch.target.tolist())
    assert value.item() == pytest.approx(classified + contrast, rel=1e-6)
    assert network.calls == 1


def test_estimates_are_of_this_epoch_and_the_one_before():
    """Three epochs of five embeddings in batches of 3 and 2; class 2 is missing in the second epoch."""
    head, seen = ProCoHead(FEATURES, 3).double(), []
    epochs = [[0, 0, 1, 2, 2], [0, 1, 1, 1, 0], [2, 0, 1, 1, 1]]
    for number, classes in enumerate(epochs):
        embedding, target = points(5, number), torch.tensor(classes)
        seen.append((embedding.tolist(), classes))
        for rows in (slice(0, 3), slice(3, 5)):
            head.observe(embedding[rows], target[rows], 5)
        both = seen[-2:]
        embeddings, targets = ([each for epoch in both for each in epoch[part]] for part in (0, 1))
        if number == 2:  # class 2 still has its sum of the first epoch, which the second one did not replace
            older = [(e, y) for e, y in zip(*seen[0], strict=True) if y == 2]
            embeddings, targets = embeddings + [e for e, _ in older], targets + [y for _, y in older]
        expected = torch.tensor(oracle.class_means(embeddings, targets, 3), dtype=torch.float64)
        torch.testing.assert_close(head.means(), expected)


def test_estimates_change_in_place_and_have_no_gradient():
    head, embedding = ProCoHead(FEATURES, 3), points(4, dtype=torch.float32).requires_grad_()
    places = [buffer.data_ptr() for buffer in head.buffers()]
    head.observe(embedding, torch.tensor([0, 1, 1, 0]), 4)
    head.observe(embedding, torch.tensor([0, 1, 1, 0]), 4)
    assert [buffer.data_ptr() for buffer in head.buffers()] == places
    assert not any(buffer.requires_grad for buffer in head.buffers())
    assert head.last_numbers.tolist() == head.numbers.tolist() == [2, 2, 0]
    assert {"sums", "numbers", "last_sums", "last_numbers"} <= head.state_dict().keys()


@pytest.mark.parametrize("case", ["one image", "one class in the batch", "one class at all"])
def test_unusual_batches_have_finite_gradients(case):
    counts = [5] if case == "one class at all" else COUNTS
    batch = three_views(1, 1 if case == "one image" else 6, len(counts))
    batch.target.fill_(0)
    head = ProCoHead(FEATURES, len(counts)).double()
    value = ProCo(CrossEntropyLoss(), counts)(Flat(head), batch, (None, None))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(p.grad).all() for p in head.parameters() if p.grad is not None)


def test_an_absent_class_counts_as_one_image_in_the_prior():
    with pytest.warns(TailcloudWarning, match="class 1 without a training image"):
        objective = ProCo(CrossEntropyLoss(), [3, 0])
    assert objective.shift.exp().tolist() == pytest.approx([0.75, 0.25])
    assert objective.epoch == 6


def test_the_contrast_is_computed_in_float32_while_the_network_is_not():
    batch, head = three_views(2, 6, CLASSES), ProCoHead(FEATURES, CLASSES)
    half = [images.bfloat16() for images in (batch.images, *batch.views)]
    with torch.autocast("cpu", torch.bfloat16):
        value = ProCo(CrossEntropyLoss(), COUNTS)(
            Flat(head), type(batch)(half[0], batch.target, views=(*half[1:],)), (None, None)
        )
    assert value.dtype == head.sums.dtype == torch.float32
    assert torch.isfinite(value)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"contrast_weight": -1.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ProCo(CrossEntropyLoss(), COUNTS, **options)
