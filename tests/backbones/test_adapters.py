"""Adapters in frozen transformers: what they compute, what is trained, and what a file of them holds."""

import json
import tomllib
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tailcloud
from helpers.oracles import adapters as oracle
from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights
from helpers.small_models import change, write_model
from helpers.tiny_vit import BLOCKS, WIDTH, Block, TinyViT, shake
from tailcloud.backbones import BACKBONES, create_backbone
from tailcloud.backbones.adapters import (
    AdaptedBlock,
    AdaptFormer,
    LoRA,
    LoRAProjection,
    adapter_names,
    bottleneck_size,
    insert_adapters,
    is_pre_norm,
    transformer_blocks,
)
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage, find_recipe, load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.export import export_run
from tailcloud.training.loop import train
from tailcloud.training.stages.cost import passes
from tailcloud.training.stages.trainable import set_modes, set_trainable

KINDS = ["lora", "adaptformer"]
NEEDS_TIMM = pytest.mark.skipif(not find_spec("timm"), reason="timm is not installed")
NETWORKS = ["tiny-vit", pytest.param("timm:test_vit", marks=NEEDS_TIMM)]
PER_LORA = 2 * (WIDTH + WIDTH)  # for each unit of rank and each block: A and B, of queries and of values


@pytest.fixture(autouse=True)
def tiny_vit(monkeypatch):
    monkeypatch.setitem(BACKBONES, "tiny-vit", TinyViT)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def stage(train, **settings):
    return Stage.model_validate({"epochs": 1, "loss": "ce", "train": train, **settings})


def small(kind, *settings, backbone="tiny-vit"):
    """A run of a few epochs on digits."""
    model = {"backbone": backbone, "head": "cosine", "adapter": kind, "adapter_size": 3, "width": 1.0}
    first = {"epochs": 3, "lr": 0.1, "train": "adapters+head", "loss": {"scale": 25.0}}
    return load_recipe(
        "digits-lt/logit-adjust",
        [{"model": model, "stage1": first, "engine": {"checkpoint_seconds": 0.0}}, *settings],
    )


@pytest.mark.parametrize(("classes", "size"), [(100, 4), (365, 8), (1000, 32), (8142, 256), (24, 1), (2, 1)])
def test_the_size_follows_lift(classes, size):
    assert bottleneck_size(classes, 12) == size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_fresh_adapters_change_nothing_and_rename_nothing(kind, name, generator):
    backbone = create_backbone(name).eval()
    images = torch.randn(2, 3, 32, 32, generator=generator)
    before, names = backbone(images), set(backbone.state_dict())
    insert_adapters(backbone, kind, size=2, classes=10)
    assert torch.equal(backbone.eval()(images), before)
    assert names < set(backbone.state_dict())
    shake(nn.ModuleList([backbone.get_submodule(name) for name in adapter_names(backbone)]), generator)
    assert not torch.allclose(backbone(images), before)


def test_lora_is_its_formula(generator):
    x = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator)
    adapter = LoRA(5, 4, 2, alpha=3.0).double()
    shake(adapter, generator)
    expected = oracle.lora(x.numpy(), adapter.down.detach().numpy(), adapter.up.detach().numpy(), 3.0)
    np.testing.assert_allclose(adapter(x).detach(), expected)


def test_lora_changes_queries_and_values_and_no_keys(generator):
    x = torch.randn(2, 3, 6, dtype=torch.float64, generator=generator)
    plain = nn.Linear(6, 18).double()
    layer = LoRAProjection(plain, 2).double()
    shake(layer, generator)
    query, key, value = (layer(x) - plain(x)).detach().chunk(3, dim=-1)
    for added, adapter in ((query, layer.query), (value, layer.value)):
        expected = oracle.lora(x.numpy(), adapter.down.detach().numpy(), adapter.up.detach().numpy(), 1.0)
        np.testing.assert_allclose(added, expected)
    assert not key.any()
    merged = torch.nn.functional.linear(x, layer.merged_weight(), layer.bias)
    torch.testing.assert_close(merged, layer(x))


def adaptformer_of(x, adapter):
    norm, down, up = (
        (layer.weight.detach().numpy(), layer.bias.detach().numpy())
        for layer in (adapter.norm, adapter.down, adapter.up)
    )
    return oracle.adaptformer(x.numpy(), norm, down, up, adapter.scale.item())


def test_adaptformer_is_its_formula(generator):
    x = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator)
    adapter = AdaptFormer(5, 2).double()
    shake(adapter, generator)
    np.testing.assert_allclose(adapter(x).detach(), adaptformer_of(x, adapter))


def test_adaptformer_stands_beside_the_mlp_and_sees_its_input_before_the_norm(generator):
    x = torch.randn(2, 4, WIDTH, dtype=torch.float64, generator=generator)
    plain = Block().double().eval()
    block = AdaptedBlock(plain, 3).double().eval()
    shake(block, generator)
    between = (x + plain.attn(plain.norm1(x))).detach()
    np.testing.assert_allclose((block(x) - plain(x)).detach(), adaptformer_of(between, block.adaptformer), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "per_block"), [("lora", 3 * PER_LORA), ("adaptformer", 2 * WIDTH + 2 * 3 * WIDTH + 3 + WIDTH + 1)]
)
def test_they_are_few(kind, per_block):
    architecture = Architecture("tiny-vit", "cosine", 1.0, 1, 10, kind, 3)
    model = build_classifier(architecture, 0)
    trained = set_trainable(model, stage("adapters"))
    assert sum(parameter.numel() for parameter in trained.values()) == BLOCKS * per_block
    with_head = set_trainable(model, stage("adapters+head"))
    assert with_head.keys() - trained.keys() == {"head.weight"}
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == with_head.keys()


def test_the_rest_of_a_model_starts_as_without_them():
    with_adapters = build_classifier(Architecture("tiny-vit", "cosine", 1.0, 1, 10, "lora"), 3).state_dict()
    plain = build_classifier(Architecture("tiny-vit", "cosine", 1.0, 1, 10), 3).state_dict()
    assert all(torch.equal(with_adapters[name], value) for name, value in plain.items())


def test_frozen_layers_stay_in_evaluation_mode():
    model = build_classifier(Architecture("tiny-vit", "cosine", 1.0, 1, 10, "adaptformer"), 0)
    set_modes(model, stage("adapters+head"))
    training = {name for name, module in model.named_modules() if module.training}
    assert {"head", "backbone.blocks.0.adaptformer"} <= training
    assert all(name in {"", "head"} or ".adaptformer" in name for name in training)


def test_gradients_go_through_frozen_layers_at_the_price_of_one_pass():
    assert [passes(stage(train)) for train in ("head", "adapters+head", "all")] == [1, 2, 3]


def enlarged(split, factor):
    return replace(split, images=split.images.repeat(factor, axis=1).repeat(factor, axis=2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "factor"), [("tiny-vit", 1), pytest.param("timm:test_vit", 4, marks=NEEDS_TIMM)])
def test_a_run_from_pretrained_weights_changes_adapters_and_head_alone(tmp_path, kind, name, factor):
    torch.manual_seed(0)  # from some weights the loss of so short a run does not fall
    backbone, digits = create_backbone(name, channels=1), open_dataset("digits-lt")
    save_file(getattr(backbone, "model", backbone).state_dict(), tmp_path / "plain.safetensors")
    recipe = small(kind, {"model": {"weights": str(tmp_path / "plain.safetensors")}}, backbone=name)
    dataset = replace(digits, train=enlarged(digits.train, factor), test=enlarged(digits.test, factor))
    folder, watcher = RunFolder(tmp_path / "run"), Watcher()
    folder.create(recipe, "tailcloud train")
    train(recipe, dataset, folder, torch.device("cpu"), watcher)
    trained = load_file(folder.weights_file)
    assert all(torch.equal(trained[f"backbone.{key}"], value) for key, value in backbone.state_dict().items())
    ups = {key: value for key, value in trained.items() if key.endswith((".up", ".up.weight"))}
    assert any(".blocks.0." in key for key in ups)
    assert all(value.any() for value in ups.values())  # they were zero, also in the first block
    assert watcher.lines[-1]["loss"] < watcher.lines[0]["loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_run_ends_with_the_same_bits(tmp_path, kind):
    recipe = small(kind)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(2))
    for folder in ("broken", "whole"):
        run(tmp_path / folder, recipe)
    assert same_weights(tmp_path / "broken", tmp_path / "whole")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_trains_them_as_eager_steps_do(tmp_path, kind):
    losses = {}
    for executor in ("eager", "graphed"):
        recipe, folder, watcher = (
            small(kind, {"engine": {"executor": executor}}),
            RunFolder(tmp_path / executor),
            Watcher(),
        )
        folder.create(recipe, "tailcloud train")
        train(recipe, open_dataset("digits-lt"), folder, torch.device("cuda"), watcher)
        losses[executor] = [line["loss"] for line in watcher.lines]
    assert losses["graphed"] == pytest.approx(losses["eager"], rel=1e-3)


@pytest.fixture(params=KINDS)
def trained(request, tmp_path):
    run(tmp_path / "run", small(request.param, {"stage1": {"epochs": 2}}))
    return request.param, tmp_path / "run"


def test_model_json_rebuilds_the_adapters(trained):
    kind, folder = trained
    written = json.loads((folder / "model.json").read_text())["architecture"]
    assert (written["adapter"], written["adapter_size"]) == (kind, 3)
    model = tailcloud.load(folder)
    saved = load_file(folder / "model.safetensors")
    assert saved.keys() == model.classifier.state_dict().keys()
    assert len(adapter_names(model)) == (2 if kind == "lora" else 1) * BLOCKS


def test_a_model_json_from_before_adapters_is_read(tmp_path):
    folder = write_model(tmp_path / "old")
    old = json.loads((folder / "model.json").read_text())["architecture"]
    del old["adapter"], old["adapter_size"]
    change(folder, architecture=old)
    assert adapter_names(tailcloud.load(folder)) == []


@pytest.mark.parametrize("form", ["safetensors", "pt2"])
def test_an_exported_model_predicts_the_same(trained, form):
    kind, folder = trained
    done = export_run(folder, form)
    assert done.difference < 1e-5
    if form == "safetensors":
        exported = tailcloud.load(done.file)
        assert bool(adapter_names(exported)) == (kind == "adaptformer")
        names = {name for name, _ in exported.classifier.named_parameters()}
        assert any("qkv.weight" in name for name in names)
        assert len(adapter_names(tailcloud.load(folder))) > 0


@pytest.mark.parametrize("backbone", ["resnet20", "resnet18", "efficientnet_lite0"])
def test_a_network_that_is_no_transformer_is_refused(backbone):
    sentence = r'model\.adapter = "lora" needs a vision transformer .* is not; set model\.backbone to one'
    with pytest.raises(UsageError, match=sentence):
        load_recipe("digits-lt/ce", [{"model": {"backbone": backbone, "adapter": "lora"}}])


def test_a_block_that_computes_something_else_is_refused():
    class PostNorm(nn.Module):
        def __init__(self):
            super().__init__()
            plain = Block()
            self.attn, self.norm1, self.mlp, self.norm2 = plain.attn, plain.norm1, plain.mlp, plain.norm2

    scaled, biased = Block(), Block()
    scaled.gamma_1 = biased.attn.q_bias = nn.Parameter(torch.ones(WIDTH))
    assert is_pre_norm(Block())
    assert not any(map(is_pre_norm, [PostNorm(), scaled, biased, nn.Identity()]))
    twice = TinyViT()
    insert_adapters(twice, "lora", size=1, classes=2)
    with pytest.raises(UsageError):
        transformer_blocks(twice, "lora")


def test_adapters_cannot_be_trained_where_there_are_none():
    with pytest.raises(
        UsageError, match=r'stage1\.train = "adapters", and model\.adapter = "none"; set model\.adapter'
    ):
        load_recipe("digits-lt/ce", [{"stage1": {"train": "adapters+head"}}])
    with pytest.raises(UsageError, match=r'train = "adapters\.0" should be .*"adapters\+head"'):
        load_recipe("digits-lt/ce", [{"stage1": {"train": "adapters.0"}}])


def test_the_shipped_recipe_has_the_published_settings():
    table = tomllib.loads(find_recipe("own/lift").read_text())
    first = table["stage1"]
    assert (table["model"]["adapter"], table["model"]["head"], first["train"]) == (
        "adaptformer",
        "cosine",
        "adapters+head",
    )
    assert first["loss"] == {"name": "logit-adjust", "scale": 25.0, "tau": 1.0}
    assert (first["epochs"], first["batch"], first["lr"], first["weight_decay"]) == (10, 128, 0.01, 5e-4)
    pytest.importorskip("timm")
    recipe = load_recipe("own/lift", [{"data": "digits-lt"}])
    assert (recipe.stage1.momentum, recipe.stage1.schedule, recipe.model.adapter_size) == (0.9, "cosine", 0)
