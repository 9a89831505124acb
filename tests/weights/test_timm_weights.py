"""Weights of timm models by tag, on a stand-in with one model and three tags."""

import importlib.util
import sys
import types
from fnmatch import filter as matching
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save
from torch import nn

from helpers.runs import small_recipe
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.training.session import Session
from tailcloud.weights import available
from tailcloud.weights.resolve import find_entry, resolve_weights

COMMON = {"architecture": "tiny", "custom_load": False, "test_input_size": None, "hf_hub_filename": None}
MORE = {"input_size": (3, 16, 16), "interpolation": "bilinear", "crop_pct": 0.9}
CONFIGS = {
    "v1": {"mean": (0.5,) * 3, "std": (0.5,) * 3, "license": "apache-2.0", "hf_hub_id": "somebody/small.v1"},
    "v2": {"mean": (0.25,) * 3, "std": (0.125,) * 3, "license": "cc-by-nc-4.0", "hf_hub_id": "somebody/small.v2"},
    "old": {"mean": (0.5,) * 3, "std": (0.5,) * 3, "license": "mit", "hf_hub_id": ""},
}


class Tiny(nn.Module):
    num_features = 4

    def __init__(self, config, in_chans):
        super().__init__()
        self.pretrained_cfg = {"mean": config.mean, "std": config.std}
        self.stem = nn.Conv2d(in_chans, 4, 3)

    def forward(self, x):
        return self.stem(x).mean(dim=(2, 3))


def config_of(name):
    return SimpleNamespace(**COMMON, **MORE, tag=(tag := name.partition(".")[2] or "v1"), **CONFIGS[tag])


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    def create_model(name, *, pretrained, in_chans, num_classes, **more):
        assert not pretrained
        if more:
            raise TypeError(more)
        return Tiny(config_of(name), in_chans)

    module = types.ModuleType("timm")
    module.create_model, module.get_pretrained_cfg, module.__version__ = create_model, config_of, "9"
    module.is_model = lambda name: name == "tiny"
    module.list_pretrained = lambda pattern: matching([f"tiny.{tag}" for tag in CONFIGS], pattern)
    module.__spec__ = importlib.util.spec_from_loader("timm", loader=None)
    monkeypatch.setitem(sys.modules, "timm", module)


def test_a_tag_keeps_its_own_configuration():
    first, second = find_entry("timm:tiny"), find_entry("timm:tiny", "v2")
    assert (first.name, first.mean, first.licence) == ("timm:tiny.v1", (0.5,) * 3, "apache-2.0")
    assert (second.name, second.std, second.source.repo) == ("timm:tiny.v2", (0.125,) * 3, "somebody/small.v2")
    assert (second.pixels, second.interpolation, second.crop) == (16, "bilinear", 0.9)
    assert find_entry("timm:tiny.v2") == second


@pytest.mark.parametrize(("backbone", "weights"), [("timm:tiny", "v2"), ("timm:tiny.v2", "pretrained")])
def test_images_are_normalised_as_the_tag_wants_it(hub, backbone, weights, monkeypatch):
    monkeypatch.setitem(CONFIGS["v2"], "license", "mit")
    torch.manual_seed(5)
    hub.content = save(Tiny(config_of("tiny.v2"), 1).state_dict())
    assert not available("timm:tiny.v2")
    found = resolve_weights(backbone, weights, download=True)
    assert (found.name, found.pixels) == ("timm:tiny.v2", 16)
    assert available("timm:tiny.v2")
    recipe = small_recipe({"model": {"backbone": backbone, "weights": weights, "width": 1.0}})
    session = Session(recipe, open_dataset("digits-lt"), torch.device("cpu"))
    assert (session.dataset.mean, session.dataset.std) == ([0.25], [0.125])
    assert session.pretrained.pixels == 16


def test_another_licence_is_not_downloaded_by_accident(hub):
    with pytest.raises(UsageError, match=r"timm:tiny\.v2 have the licence cc-by-nc-4\.0, .*get timm:tiny\.v2 --accept"):
        resolve_weights("timm:tiny", "v2", download=True)
    assert hub.requests == []


def test_a_tag_that_timm_does_not_have_is_named():
    with pytest.raises(UsageError, match=r'model\.backbone: timm 9 has no weights "v3" of tiny; known: v1, v2, old'):
        load_recipe("digits-lt/gcl", [{"model": {"backbone": "timm:tiny.v3"}}])
    with pytest.raises(UsageError, match=r'no weights "v3" of tiny'):
        find_entry("timm:tiny", "v3")


def test_weights_that_are_not_on_the_hub_are_named():
    with pytest.raises(UsageError, match=r"no weights of timm:tiny\.old as a file of tensors on the hub"):
        find_entry("timm:tiny.old")
