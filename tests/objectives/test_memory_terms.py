"""OLTR: the memory head, its centroids, and the terms that keep them in order, against naive float64 computations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from tailcloud.classifier import Architecture, cost
from tailcloud.data.loaders.batch import Batch
from tailcloud.head_transforms import HEAD_TRANSFORMS, TrainedModelView
from tailcloud.heads import LinearHead, MemoryHead
from tailcloud.losses import CrossEntropyLoss
from tailcloud.objectives import MemoryObjective

CLASSES, FEATURES = 4, 5


def memory_head(seed, classes=CLASSES):
    torch.manual_seed(seed)
    head = MemoryHead(FEATURES, classes).double()
    torch.nn.init.normal_(head.centroids)
    return head


def naive_outputs(head, features):
    linear = [(layer.weight.tolist(), layer.bias.tolist()) for layer in (head.recall, head.selector)]
    return oracle.memory_outputs(features.tolist(), head.centroids.tolist(), head.weight.tolist(), *linear)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 6),
    spread=st.floats(0.1, 3),
    weight=st.floats(0, 1),
    push=st.floats(0, 1),
)
def test_matches_the_oracle(seed, rows, spread, weight, push):
    head = memory_head(seed)
    features, target = spread * torch.randn(rows, FEATURES, dtype=torch.float64), torch.randint(CLASSES, (rows,))
    outputs = naive_outputs(head, features)
    torch.testing.assert_close(head(features), torch.tensor(outputs, dtype=torch.float64))
    loss = CrossEntropyLoss(scale=16.0)
    entropy = oracle.cross_entropy([[16 * value for value in row] for row in outputs], target.tolist())
    order = oracle.memory_order(features.tolist(), target.tolist(), head.centroids.tolist(), push, 10.0)
    network = Flat(head)
    value = MemoryObjective(loss, weight=weight, push=push)(network, Batch(features, target), None)
    assert value.item() == pytest.approx(entropy + weight * order, rel=1e-7)
    assert network.calls == 1


def test_outputs_lie_between_minus_one_and_one_also_on_a_centroid_and_far_away():
    head = memory_head(0).float()
    features = torch.cat([head.centroids.detach(), 1e4 * torch.randn(3, FEATURES), torch.zeros(1, FEATURES)])
    features.requires_grad_()
    outputs = head(features)
    outputs.sum().backward()
    assert (outputs.abs() <= 1).all()
    assert torch.isfinite(features.grad).all()


def test_distances_keep_their_digits_in_half_precision():
    head, features = memory_head(1).float(), torch.randn(4, FEATURES)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = head(features)
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, head(features))


@pytest.mark.parametrize("case", ["one image", "one class in the batch", "one class at all"])
def test_unusual_batches_have_finite_gradients(case):
    head = memory_head(2, 1 if case == "one class at all" else CLASSES)
    features = torch.randn(1 if case == "one image" else 6, FEATURES, dtype=torch.float64)
    value = MemoryObjective(CrossEntropyLoss(scale=16.0))(
        Flat(head), Batch(features, torch.zeros(len(features)).long()), None
    )
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(parameter.grad).all() for parameter in head.parameters())


def test_centroids_start_as_class_means_and_that_of_an_absent_class_at_zero():
    features, target = torch.randn(20, FEATURES), torch.tensor([0, 1, 3, 3] * 5)
    change, new = HEAD_TRANSFORMS["memory"]([5, 5, 0, 10]), MemoryHead(FEATURES, CLASSES)
    assert change.head_after("linear") == change.head_after("cosine") == "memory"
    with torch.no_grad():
        change.apply(LinearHead(FEATURES, CLASSES), new, TrainedModelView(16.0, lambda: (features, target)))
    for label in range(CLASSES):
        rows = [row for row, y in zip(features.tolist(), target.tolist(), strict=True) if y == label]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [0.0] * FEATURES
        torch.testing.assert_close(new.centroids[label], torch.tensor(mean))


def test_its_cost_is_counted_without_numbers():
    assert cost(Architecture("resnet8", "memory", 0.25, 1, CLASSES), 8, 8).flops > 0


@pytest.mark.parametrize("options", [{"weight": -1.0}, {"push": -1.0}, {"margin": -1.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        MemoryObjective(CrossEntropyLoss(), **options)
