import importlib.util
import sys
import types

import pytest
import torch
from torch import nn

from helpers.runs import small_recipe
from tailcloud.backbones import create_backbone
from tailcloud.classifier import Architecture, cost, meta_backbone
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.training.session import Session
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import from_file

HERE = importlib.util.find_spec("timm") is not None


class Tiny(nn.Module):
    """What a timm model looks like from outside."""

    num_features = 4
    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}  # noqa: RUF012

    def __init__(self, in_chans):
        super().__init__()
        self.stem = nn.Conv2d(in_chans, 4, 3)

    def forward(self, x):
        return self.stem(x).mean(dim=(2, 3))


@pytest.fixture
def stand_in(monkeypatch):
    """A timm of one model."""

    def create_model(name, *, pretrained, in_chans, num_classes, **more):
        assert (name, pretrained, num_classes) == ("tiny", False, 0)
        if more:
            raise TypeError(more)
        return Tiny(in_chans)

    module = types.ModuleType("timm")
    module.create_model, module.is_model, module.__version__ = create_model, lambda name: name == "tiny", "9"
    module.__spec__ = importlib.util.spec_from_loader("timm", loader=None)
    monkeypatch.setitem(sys.modules, "timm", module)


def test_a_timm_model_is_a_backbone_with_its_own_normalisation(stand_in, tmp_path):
    backbone = create_backbone("timm:tiny")
    assert backbone(torch.zeros(2, 3, 8, 8)).shape == (2, backbone.features)
    torch.save(Tiny(3).state_dict(), tmp_path / "w.pth")
    assert load_pretrained(backbone, from_file(str(tmp_path / "w.pth")), 3).std == [0.25] * 3


def test_a_model_for_images_of_another_size_is_a_sentence(stand_in, monkeypatch):
    def refuse(self, x):
        raise AssertionError("Input height (8) doesn't match model (224).")

    monkeypatch.setattr(Tiny, "forward", refuse)
    with pytest.raises(UsageError, match=r"cannot process images of 8 × 8 pixels \(Input .* model \(224\)\); set data"):
        cost(Architecture("timm:tiny", "linear", 1.0, 1, 10), 8, 8)


def test_images_are_normalised_as_a_timm_models_weights_expect_it(stand_in, tmp_path):
    torch.save(Tiny(1).state_dict(), tmp_path / "w.pth")
    model = {"backbone": "timm:tiny", "weights": str(tmp_path / "w.pth"), "width": 1.0}
    session = Session(small_recipe({"model": model}), open_dataset("digits-lt"), torch.device("cpu"))
    assert (session.dataset.mean, session.dataset.std) == ([0.5], [0.25])
    assert (session.transform.mean, session.transform.std) == ([0.5], [0.25])


def test_a_model_that_timm_does_not_have_is_named(stand_in):
    with pytest.raises(UsageError, match=r'model\.backbone: timm 9 has no model "tinny"'):
        load_recipe("digits-lt/gcl", [{"model": {"backbone": "timm:tinny"}}])


def test_a_missing_library_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr("tailcloud.backbones.timm_models.timm_is_installed", lambda: False)
    with pytest.raises(UsageError, match=r"pip install 'tailcloud\[timm\]'"):
        create_backbone("timm:resnet18")


@pytest.fixture
def torchvision_operators():
    """timm imports torchvision, which needs operators that a build without its C++ code does not have."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    if importlib.util.find_spec("torchvision") and not hasattr(torch.ops.torchvision, "nms"):
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


@pytest.mark.usefixtures("torchvision_operators")
@pytest.mark.skipif(not HERE, reason="timm is not installed")
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
def test_real_models_of_timm(name):
    backbone = create_backbone(f"timm:{name}", channels=1).eval()
    assert backbone(torch.zeros(2, 1, 64, 64)).shape == (2, backbone.features)


@pytest.mark.usefixtures("torchvision_operators")
@pytest.mark.skipif(not HERE, reason="timm is not installed")
def test_our_resnet_is_timms():
    for name in ("resnet18", "resnet50"):
        ours, theirs = create_backbone(name).eval(), create_backbone(f"timm:{name}").eval()
        ours.load_state_dict(theirs.model.state_dict())
        images = torch.randn(1, 3, 64, 64)
        torch.testing.assert_close(ours(images), theirs(images))


@pytest.mark.skipif(not HERE, reason="needs timm")
@pytest.mark.parametrize(("name", "layers"), [("vit_tiny_patch16_224", 13), ("convnext_atto", 6), ("resnet18", 5)])
def test_layers_are_blocks_of_a_transformer_or_stages_of_a_convolutional_network(name, layers):
    backbone = meta_backbone(f"timm:{name}")
    found = backbone.layers()
    assert len(found) == layers
    named = [parameter for parameter, _ in backbone.named_parameters()]
    assert sorted(part for layer in found for part in layer) == sorted(named)
    assert found[0][0] == named[0]
