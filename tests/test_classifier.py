"""A fresh head follows from the seed alone, and stands where the model stands."""

import pytest
import torch

from tailcloud.classifier import Architecture, build_classifier, fresh_head
from tailcloud.heads import HEADS


@pytest.fixture
def model():
    return build_classifier(Architecture("resnet8", "linear", 0.25, 1, 5), 0)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_a_fresh_head_follows_from_the_seed_alone(model, kind):
    torch.manual_seed(99)
    first, again, other = (fresh_head(model, kind, seed) for seed in (3, 3, 4))
    assert type(first) is HEADS[kind]
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert not torch.equal(first.weight, model.head.weight)


def test_drawing_it_leaves_the_global_generator_alone(model):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fresh_head(model, "linear", 0)
    assert torch.equal(torch.rand(3), expected)
