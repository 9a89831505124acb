"""Batches in pieces: what says that it is a mean over images has the gradient of the whole batch, in float64."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from helpers.networks import Flat
from tailcloud.data.loaders.batch import Batch, BatchShare
from tailcloud.heads import HEADS, ExpertHeads
from tailcloud.losses import LOSSES, CrossEntropyLoss, FocalLoss, GCLLoss, LDAMLoss
from tailcloud.objectives import OBJECTIVES, cut
from tailcloud.objectives.base import Objective

COUNTS, FEATURES, ROWS = [40, 9, 4, 1], 6, 11

VARIANTS = [
    *((name, LOSSES[name](COUNTS)) for name in LOSSES),
    *((f"gcl by {kind}", GCLLoss(COUNTS, granularity=kind, focal=1.0, margin=0.1)) for kind in ("sample", "class")),
    ("weighted ce", CrossEntropyLoss(COUNTS, weights="effective")),
    ("ldam drw", LDAMLoss(COUNTS, weights="inverse", defer=0.5)),
    ("weighted focal", FocalLoss(COUNTS, weights="inverse")),
]
OBJECTIVE_VARIANTS = [(name, {}) for name in OBJECTIVES] + [("contrastive", {"kind": "prototypical"})]
HEAD = {name: name for name in ("contrastive", "memory", "bcl", "proco")}


def batch_of(objective: Objective) -> Batch:
    generator = torch.Generator().manual_seed(0)

    def images():
        return torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)

    def classes():
        return torch.randint(len(COUNTS), (ROWS,), generator=generator)

    batch = Batch(images(), classes())
    if objective.mixes:
        partners = torch.randperm(ROWS, generator=generator)  # every image is the partner of one
        batch = replace(batch, other=batch.target[partners], lam=torch.tensor(0.3, dtype=torch.float64))
    return replace(
        batch,
        views=tuple(images() for _ in range(objective.views)),
        second=Batch(images(), classes()) if objective.second else None,
    )


def piece_of(batch: Batch, start: int, end: int) -> Batch:
    def some(tensor):
        return None if tensor is None else tensor[start:end]

    return Batch(
        batch.images[start:end], batch.target[start:end], some(batch.other), batch.lam, tuple(map(some, batch.views)),
        piece_of(batch.second, start, end) if batch.second else None, start, batch.target,
    )  # fmt: skip


class Branches(Flat):
    """Features of two branches that each see images of their own."""

    def features(self, images):
        return torch.cat(list(super().features(images)), dim=1)


def gradients(objective, head, pieces, weights):
    """Gradients by the weights of the head, added over pieces."""
    noise = objective.draw(pieces[0], torch.Generator().manual_seed(5))
    head.zero_grad()
    network = Branches if objective.branches == 2 else Flat
    for piece, weight in zip(pieces, weights, strict=True):
        (weight * objective(network(head), piece, cut(noise, piece))).backward()
    return torch.cat([p.grad.flatten() for p in head.parameters() if p.grad is not None])


def compared(objective, kind, shares):
    torch.manual_seed(3)
    make = HEADS[kind] if objective.experts == 1 else partial(ExpertHeads, HEADS[kind], objective.experts)
    head, batch = make(objective.branches * FEATURES, len(COUNTS)).double(), batch_of(objective.double())
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    objective.advance(0.6)
    whole = gradients(objective, head, [batch], [1.0])
    pieces = [piece_of(batch, *bounds) for share in shares for bounds in share.bounds(0, ROWS)]
    return gradients(objective, head, pieces, [len(piece.target) / ROWS for piece in pieces]), whole


CUTS = [
    [BatchShare(0, 2, 2)],
    [BatchShare(0, 1, 4), BatchShare(1, 2, 4), BatchShare(3, 1, 4)],
    [BatchShare(0, 13, 13)],
]  # 13: some are empty


@pytest.mark.parametrize("shares", CUTS, ids=["halves", "quarters", "more than images"])
@pytest.mark.parametrize(("name", "loss"), VARIANTS, ids=[name for name, _ in VARIANTS])
def test_a_loss_says_whether_its_batches_may_be_cut(name, loss, shares):
    assert loss.per_image == (name not in {"lade", "weighted ce", "ldam drw"})
    assert (loss.per_image or loss.weighs) == (name != "lade")
    made, whole = compared(OBJECTIVES["classify"](loss), "cosine", shares)
    assert torch.allclose(made, whole, rtol=1e-10, atol=1e-12) == (loss.per_image or loss.weighs)


@pytest.mark.parametrize("shares", CUTS, ids=["halves", "quarters", "more than images"])
@pytest.mark.parametrize(("name", "options"), OBJECTIVE_VARIANTS, ids=str)
def test_an_objective_says_whether_its_batches_may_be_cut(name, options, shares):
    loss = GCLLoss(COUNTS) if name in {"classify", "bbn"} else CrossEntropyLoss()
    objective = OBJECTIVES[name](loss, COUNTS, FEATURES, **options)
    if name == "memory":
        objective.margin = 1000.0  # or nothing would be pushed
    made, whole = compared(objective, HEAD.get(name, "linear"), shares)
    exact = torch.allclose(made, whole, rtol=1e-10, atol=1e-12)
    assert exact or not objective.per_image
    assert objective.per_image == (name in {"classify", "bbn", "feature-noise", "experts"} or "kind" in options)
