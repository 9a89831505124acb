"""The objective of experts: against a naive one in float64, its prior, and what the mean of logits implies."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import CosineHead, ExpertHeads, LinearHead
from tailcloud.losses import CrossEntropyLoss, GCLLoss, LogitAdjustmentLoss
from tailcloud.losses.gcl_angular import GCLAngularLoss
from tailcloud.objectives import Classify, Experts

COUNTS, FEATURES, ROWS = [40, 9, 2, 1], 12, 7


def batch_of(dtype=torch.float64, rows=ROWS, classes=4):
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    return Batch(images, torch.randint(classes, (rows,), generator=generator))


@pytest.mark.parametrize("taus", [[0.0, 1.0, 2.0], [-1.0, 0.5]])
@pytest.mark.parametrize(("counts", "scale"), [(COUNTS, 1.0), ([5, 5, 5, 5], 3.0), (COUNTS, 30.0)])
def test_it_is_the_naive_mean_over_experts(taus, counts, scale):
    torch.manual_seed(0)
    head = ExpertHeads(LinearHead, len(taus), FEATURES, 4).double()
    objective, batch = Experts(CrossEntropyLoss(scale=scale), counts, FEATURES, taus=taus), batch_of()
    found = objective(Flat(head), batch, objective.draw(batch, torch.Generator()))
    outputs = [part.tolist() for part in head.each(batch.images)]
    expected = oracle.experts(outputs, batch.target.tolist(), counts, taus, scale)
    assert found.item() == pytest.approx(expected, rel=1e-6)  # the shifts are float32


def test_each_expert_has_a_cloud_of_its_own():
    torch.manual_seed(0)
    head = ExpertHeads(CosineHead, 2, FEATURES, 4).double()
    loss, batch = GCLLoss(COUNTS), batch_of()
    objective = Experts(loss, COUNTS, FEATURES, taus=[0.0, 0.0])
    noise = objective.draw(batch, torch.Generator().manual_seed(5))
    assert not torch.equal(noise[0][0], noise[1][0])
    parts = head.each(batch.images)
    expected = sum(loss(part, batch.target, epsilon=own[0]) for part, own in zip(parts, noise, strict=True)) / 2
    torch.testing.assert_close(objective(Flat(head), batch, noise), expected)


def test_a_mixed_batch_is_weighed_for_every_expert():
    torch.manual_seed(0)
    head = ExpertHeads(LinearHead, 3, FEATURES, 4).double()
    batch = batch_of()
    mixed = replace(batch, other=batch.target.flip(0), lam=torch.tensor(0.3, dtype=torch.float64))
    objective = Experts(CrossEntropyLoss(), COUNTS, FEATURES)
    first, second = (
        objective(Flat(head), part, objective.draw(part, torch.Generator()))
        for part in (batch, replace(batch, target=mixed.other))
    )
    found = objective(Flat(head), mixed, objective.draw(mixed, torch.Generator()))
    torch.testing.assert_close(found, 0.3 * first + 0.7 * second)


def test_equal_experts_without_shifts_are_one_network():
    head = ExpertHeads(LinearHead, 2, FEATURES, 4).double()
    head.experts[1].load_state_dict(head.experts[0].state_dict())
    batch = batch_of()
    batch = replace(batch, images=batch.images[:, : FEATURES // 2].repeat(1, 2))
    objective, plain = Experts(CrossEntropyLoss(), COUNTS, taus=[0.0, 0.0]), Classify(CrossEntropyLoss())
    values = [each(Flat(head), batch, each.draw(batch, torch.Generator())) for each in (objective, plain)]
    torch.testing.assert_close(*values)


def test_half_precision_empty_batches_and_one_class():
    objective, batch = Experts(CrossEntropyLoss(), COUNTS), batch_of(torch.bfloat16)
    value = objective(Flat(ExpertHeads(LinearHead, 3, FEATURES, 4).bfloat16()), batch, [(None, None)] * 3)
    assert value.dtype == torch.float32
    assert value.isfinite()
    single = Experts(LogitAdjustmentLoss([7]), [7])
    batch = batch_of(torch.float32, classes=1)
    assert single(Flat(ExpertHeads(LinearHead, 3, FEATURES, 1)), batch, [(None, None)] * 3).item() == 0
    empty = Experts(LogitAdjustmentLoss(COUNTS), COUNTS)
    none = batch_of(torch.float32, rows=0)
    assert empty(Flat(ExpertHeads(LinearHead, 3, FEATURES, 4)), none, [(None, None)] * 3).item() == 0


@pytest.mark.parametrize(
    ("loss", "taus", "power"),
    [
        (CrossEntropyLoss(), [0.0, 1.0, 2.0], 0.0),
        (CrossEntropyLoss(), [0.0, 1.0], 0.5),
        (LogitAdjustmentLoss(COUNTS), [-1.0, 0.0, 1.0], 0.0),
        (GCLLoss(COUNTS), [-1.0, 0.0, 1.0], 0.0),
        (GCLLoss(COUNTS), [0.0, 1.0, 2.0], -1.0),
    ],
)
def test_the_mean_logits_imply_the_prior_of_the_mean_tau(loss, taus, power):
    shown = np.array(COUNTS) / sum(COUNTS)
    expected = np.array(COUNTS, dtype=float) ** power
    assert Experts(loss, COUNTS, taus=taus).prior(shown, shown) == pytest.approx(expected / expected.sum(), rel=1e-6)


def test_trained_experts_have_the_logits_of_their_priors():
    """Features say nothing about the class: the mean logits become those of the implied prior."""
    counts, taus = [60, 30, 10], [0.0, 1.0, 2.0]
    objective = Experts(CrossEntropyLoss(), counts, taus=taus).double()
    head = ExpertHeads(LinearHead, 3, 6, 3).double()
    target = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    batch = Batch(torch.zeros(100, 6, dtype=torch.float64), target)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = objective(Flat(head), batch, [(None, None)] * 3)
        loss.backward()
        return loss

    optimizer.step(closure)
    shown = np.array(counts) / 100
    assert head(batch.images)[0].softmax(dim=0).tolist() == pytest.approx(objective.prior(shown, shown), abs=1e-4)


def test_losses_on_angles_take_no_shift():
    assert Experts(GCLAngularLoss(COUNTS), COUNTS, taus=[0.0, 0.0]).experts == 2
    with pytest.raises(ValueError, match="takes outputs as angles"):
        Experts(GCLAngularLoss(COUNTS), COUNTS)
