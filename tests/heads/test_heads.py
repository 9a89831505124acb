"""Heads: shapes, ranges, starts, and cosines against a naive loop."""

import math

import pytest
import torch

from tailcloud.heads import HEADS, CosineHead, LinearHead


@pytest.mark.parametrize("name", HEADS)
def test_every_head_maps_features_to_classes(name):
    head = HEADS[name](64, 10)
    assert head(torch.randn(3, 64)).shape == (3, 10)
    assert head(torch.randn(0, 64)).shape == (0, 10)


def test_cosines_match_a_naive_loop():
    head = CosineHead(5, 3).double()
    features = torch.randn(4, 5, dtype=torch.float64)
    for i, row in enumerate(head(features).tolist()):
        for j, cosine in enumerate(row):
            f, w = features[i].tolist(), head.weight[j].tolist()
            dot = sum(a * b for a, b in zip(f, w, strict=True))
            assert cosine == pytest.approx(dot / math.hypot(*f) / math.hypot(*w))


def test_cosine_anchors_start_with_length_one_and_a_zero_feature_is_neutral():
    head = CosineHead(64, 10)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(10))
    assert (head(torch.zeros(2, 64)) == 0).all()


def test_the_linear_head_starts_as_published():
    torch.manual_seed(0)
    head = LinearHead(64, 5000)
    assert head.weight.std().item() == pytest.approx(math.sqrt(2 / 64), rel=0.02)
    assert head.bias.abs().max().item() == pytest.approx(1 / 8, rel=0.01)
