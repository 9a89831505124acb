"""BBN: both terms against a naive float64 computation, and what the share of the stage does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import CosineHead, LinearHead
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import BBN

CLASSES, HALF = 4, 3


class TwoBranches(Flat):
    """Branch a sees the first of each pair, branch b the second."""

    def features(self, images):
        first, second = super().features(images)
        return torch.cat([first, second], dim=1)


def batch_of(seed, rows):
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(rows, HALF, generator=generator, dtype=torch.float64) for _ in range(2))
    ours, theirs = (torch.randint(CLASSES, (rows,), generator=generator) for _ in range(2))
    return Batch(first, ours, second=Batch(second, theirs))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.99), rows=st.integers(1, 6))
def test_both_terms_match_the_oracle(seed, share, rows):
    batch, head = batch_of(seed, rows), LinearHead(2 * HALF, CLASSES).double()
    objective, network = BBN(CrossEntropyLoss()).double(), TwoBranches(head)
    objective.advance(share)
    alpha, logits = 1 - share**2, []
    for a, b in zip(batch.images.tolist(), batch.second.images.tolist(), strict=True):
        feature = [2 * alpha * value for value in a] + [2 * (1 - alpha) * value for value in b]
        rows_of = zip(head.weight.tolist(), head.bias.tolist(), strict=True)
        logits.append([oracle.dot(w, feature) + bias for w, bias in rows_of])
    ours = oracle.cross_entropy(logits, batch.target.tolist())
    theirs = oracle.cross_entropy(logits, batch.second.target.tolist())
    value = objective(network, batch, objective.draw(batch, torch.Generator()))
    assert value.item() == pytest.approx(alpha * ours + (1 - alpha) * theirs, rel=1e-9)
    assert network.calls == 1


def test_the_second_stream_counts_nothing_at_first_and_ever_more_then():
    objective = BBN(CrossEntropyLoss())
    place, seen = objective.alpha.data_ptr(), []
    for share in (0.0, 0.5, 0.9):
        objective.advance(share)
        seen.append(objective.alpha.item())
    assert seen == pytest.approx([1.0, 0.75, 0.19])
    assert objective.alpha.data_ptr() == place
    assert objective.state_dict() == {}  # it follows from the epoch


def test_at_half_and_half_training_sees_what_prediction_sees():
    objective = BBN(CrossEntropyLoss())
    objective.advance(0.5**0.5)
    features = torch.randn(3, 2 * HALF)
    torch.testing.assert_close(objective.weighed(features), features)


def test_each_term_has_clouds_of_its_own():
    batch, objective = batch_of(1, 5), BBN(GCLLoss([40, 9, 3, 1]))
    first, second = objective.draw(batch, torch.Generator().manual_seed(0))
    assert first.shape == second.shape == (5, CLASSES)
    assert not torch.equal(first, second)
    value = objective(TwoBranches(CosineHead(2 * HALF, CLASSES).double()), batch, (first, second))
    assert torch.isfinite(value)
