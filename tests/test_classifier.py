"""Fresh heads follow from the seed alone; costs are what PyTorch's own counter says."""

import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tailcloud.backbones import BACKBONES
from tailcloud.classifier import Architecture, build_classifier, cost, cost_of, fresh_head, meta_classifier
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


@pytest.mark.parametrize(
    ("backbone", "head"),
    [*((backbone, "linear") for backbone in BACKBONES), *(("resnet8", head) for head in HEADS if head != "linear")],
)
def test_flops_are_those_of_pytorchs_counter(backbone, head):
    width = 1.0 if backbone.startswith("efficientnet") else 0.25  # its width is fixed
    architecture = Architecture(backbone, head, width, 3, 7)
    model = build_classifier(architecture, 0)
    with FlopCounterMode(display=False) as counter:
        model.eval()(torch.zeros(1, 3, 12, 10))
    found = cost(architecture, 12, 10)
    assert found == cost_of(model, 3, 12, 10)
    assert found.flops == counter.get_total_flops() > 0
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_counting_flops_does_not_import_pytorchs_compiler():
    """It takes as long as importing PyTorch."""
    code = """
import sys
from tailcloud.classifier import Architecture, cost
cost(Architecture("efficientnet_lite0", "linear", 1.0, 3, 7), 32, 32)
sys.exit("sympy" in sys.modules or "torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("head", HEADS)
def test_a_hollow_classifier_takes_the_weights_of_a_real_one(head):
    architecture = Architecture("resnet8", head, 0.25, 1, 5)
    model, hollow = build_classifier(architecture, 0), meta_classifier(architecture)
    assert all(parameter.is_meta for parameter in hollow.parameters())
    hollow.load_state_dict(model.state_dict(), assign=True)
    images = torch.randn(3, 1, 8, 8)
    assert torch.equal(hollow.eval()(images), model.eval()(images))
