"""The backbone of BBN: the last block twice, and pairs of images that share all the rest."""

import pytest
import torch

from tailcloud.backbones import branched, create_backbone
from tailcloud.classifier import Architecture, build_classifier, cost
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import from_file


def pairs(rows=3):
    first, second = (torch.randn(rows, 1, 8, 8).to(memory_format=torch.channels_last) for _ in range(2))
    joined = torch.cat([first, second])
    return first, second, joined.view(2, -1, *joined.shape[1:])


@pytest.mark.parametrize("name", ["resnet8", "resnet20", "resnet18", "resnet50"])
def test_each_branch_sees_its_own_images(name):
    backbone = create_backbone(name + "-two-branch", channels=1, width=0.25).eval()
    first, second, both = pairs()
    half = backbone.features // 2
    expected = torch.cat([backbone(first)[:, :half], backbone(second)[:, half:]], dim=1)
    torch.testing.assert_close(backbone(both), expected)
    assert not torch.allclose(backbone(first)[:, :half], backbone(first)[:, half:])


@pytest.mark.parametrize("name", ["resnet20", "resnet18"])
def test_statistics_of_a_branch_are_of_its_own_images(name):
    backbone = create_backbone(f"{name}-two-branch", channels=1, width=0.25).train()
    seen = []
    for block in (backbone.branch_a, backbone.branch_b):
        block.register_forward_hook(lambda _module, inputs, _output: seen.append(len(inputs[0])))
    backbone(pairs(5)[2])
    assert seen == [5, 5]


@pytest.mark.parametrize("classes", [10, 100])
def test_it_is_one_block_and_one_half_head_larger(classes):
    plain, double = (
        cost(Architecture(name, "linear", 1.0, 3, classes), 32, 32) for name in ("resnet32", "resnet32-two-branch")
    )
    block = 2 * 64 * 64 * 9 + 2 * 2 * 64
    assert double.parameters - plain.parameters == block + 64 * classes


def test_both_branches_start_kaiming_normal():
    backbone = build_classifier(Architecture("resnet32-two-branch", "linear", 1.0, 3, 10), 0).backbone
    for conv in (backbone.branch_a.conv1, backbone.branch_b.conv1, backbone.branch_b.conv2):
        assert conv.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)


def test_the_name_follows_from_the_number_of_branches():
    assert branched("resnet8", 1) == "resnet8"
    assert branched("resnet8", 2) == branched(branched("resnet8", 2), 2) == "resnet8-two-branch"
    assert branched("resnet152-fresh", 2) == "resnet152-two-branch"


def test_published_weights_fill_all_but_the_branches(tmp_path):
    weights = create_backbone("resnet18", width=0.125).state_dict()
    torch.save(weights, tmp_path / "w.pth")
    backbone = create_backbone("resnet18-two-branch", width=0.125)
    load_pretrained(backbone, from_file(str(tmp_path / "w.pth")), 3)
    assert backbone.layer4[0].conv1.weight.equal(weights["layer4.0.conv1.weight"])
    assert not backbone.branch_a.conv1.weight.equal(backbone.branch_b.conv1.weight)
