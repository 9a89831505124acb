"""The recipes of the large benchmarks: their settings as published or reconstructed, and a run on drawn images."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from helpers.drawing import draw
from tailcloud.backbones import create_backbone
from tailcloud.cli import app
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.recipe import load_recipe, shipped
from tailcloud.training.schedule import learning_rate

LARGE = ("imagenet-lt", "inat2018", "places-lt")
DECAY = {"imagenet-lt": "5e-4", "inat2018": "1e-4", "places-lt": "5e-4"}


def optimised(stage):
    return stage.optimizer.name, stage.momentum, stage.weight_decay, stage.clip, stage.ema


@pytest.mark.parametrize("data", LARGE)
def test_the_first_stage_has_the_published_schedule(data):
    stage = load_recipe(f"{data}/ce").stage1
    epochs, first, second = (90, 60, 80) if data == "places-lt" else (200, 120, 160)
    assert (stage.epochs, stage.batch, stage.lr, stage.warmup, stage.schedule) == (epochs, 512, 0.2, 5, "step")
    assert optimised(stage) == ("sgd", 0.9, float(DECAY[data]), 0.0, 0.0)
    rates = [learning_rate(stage, epoch) for epoch in range(epochs)]
    assert rates[:6] == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.2, 0.2])
    assert [rates[first - 1], rates[first], rates[second - 1], rates[second]] == pytest.approx([0.2, 0.02, 0.02, 0.002])


@pytest.mark.parametrize("data", LARGE)
def test_images_are_varied_by_resized_crops_and_flips_alone(data):
    augment = load_recipe(f"{data}/gcl").augment
    assert (augment.crop_area, augment.crop_ratio, augment.flip, augment.color_jitter, augment.crop_padding) == (
        [0.08, 1.0],
        None,
        True,
        None,
        0,
    )


@pytest.mark.parametrize(
    ("data", "noise", "scale"), [("imagenet-lt", 0.5, 20.0), ("inat2018", 0.5, 20.0), ("places-lt", 1.0, 15.0)]
)
def test_gcl_on_large_data(data, noise, scale):
    recipe = load_recipe(f"{data}/gcl")
    one, two = recipe.stage1, recipe.stage2
    assert (one.mixup, one.sampler.name, one.loss.options["scale"], one.loss.options["noise"]) == (
        0.2,
        "ib",
        30.0,
        noise,
    )
    assert (one.loss.options["margin"], one.loss.options["focal"]) == (0.0, 0.0)
    assert (two.epochs, two.batch, two.lr, two.schedule, two.warmup) == (30, 512, 0.002, "cosine", 0)
    assert (two.train, two.batch_norm, two.head_transform.name, two.sampler.name, two.mixup) == (
        "head",
        "frozen",
        "keep",
        "cb",
        0,
    )
    options = two.loss.options
    assert (options["scale"], options["noise"], options["margin"], options["focal"]) == (scale, noise, 0.1, 1.0)
    assert two.weight_decay == one.weight_decay


def test_places_lt_trains_a_new_block_on_published_weights():
    recipe = load_recipe("places-lt/gcl")
    assert recipe.model.backbone == "resnet152-fresh"
    assert recipe.model.weights == "weights/resnet152-394f9c45.pth"
    assert recipe.stage1.train == "backbone.fresh+head"
    official = load_recipe("places-lt/gcl-official")
    assert (official.stage1, official.stage2) == (recipe.stage1, recipe.stage2)


@pytest.mark.parametrize("data", LARGE)
def test_second_stages_are_those_published_for_large_data(data):
    epochs = 30 if data == "inat2018" else 10
    crt, lws = (load_recipe(f"{data}/{method}").stage2 for method in ("crt", "lws"))
    assert (crt.epochs, crt.batch, crt.lr, crt.schedule, crt.head_transform.name) == (
        epochs,
        512,
        0.2,
        "cosine",
        "fresh",
    )
    assert (lws.epochs, lws.batch, lws.lr, lws.schedule, lws.train) == (5, 512, 0.2, "cosine", "head.scale")
    mislas = load_recipe(f"{data}/mislas")
    options = mislas.stage2.loss.options
    smooth = (0.4, 0.1) if data == "places-lt" else (0.3, 0.0)
    assert (options["smooth_head"], options["smooth_tail"]) == smooth
    assert mislas.stage2.lr_factors == {"head.inner": 0.05}
    assert mislas.stage1 == load_recipe(f"{data}/ce-mixup").stage1
    assert load_recipe(f"{data}/ce-mixup+crt").stage2 == crt


RECIPES = [name for name in shipped("recipes") if name.split("/")[0] in LARGE]


@pytest.mark.parametrize("name", RECIPES)
def test_every_stage_that_trains_has_the_weight_decay_of_its_data(name):
    trained = [stage for stage in load_recipe(name).stages.values() if stage.epochs]
    assert {stage.weight_decay for stage in trained} == {float(DECAY[name.split("/")[0]])}


def test_tde_takes_off_as_much_as_was_published_for_its_data():
    alphas = {
        data: load_recipe(f"{data}/tde").stage2.head_transform.options["alpha"]
        for data in ("cifar10-lt", "imagenet-lt")
    }
    assert alphas == {"cifar10-lt": 1.0, "imagenet-lt": 3.0}


@pytest.mark.parametrize("name", RECIPES)
def test_every_one_says_that_it_is_reconstructed_and_was_not_run(name):
    head = [line for line in shipped("recipes")[name].read_text().splitlines() if line.startswith("#")]
    assert head[0] == f"# tailcloud train {name} --root data"
    assert head[2].startswith("# Reconstructed")
    assert "run here" in head[2]
    assert head[3].startswith("# Known: ")
    assert head[4].startswith("# Inferred: ")


def small_copy(root, data, monkeypatch):
    """The lists of a large data set with three classes, and pictures for them."""
    counts = {part: {"train": (4, 2, 1), "val": (1, 1, 1), "test": (2, 2, 2)}[part] for part in EDITIONS[data].lists}
    images = {part: sum(count) for part, count in counts.items()}
    monkeypatch.setitem(EDITIONS, data, replace(EDITIONS[data], classes=3, images=images))
    for part, stem in EDITIONS[data].lists.items():
        names = [
            f"{part}_pictures/c{c}/{part}{i}.jpg {c}" for c, count in enumerate(counts[part]) for i in range(count)
        ]
        (root / f"{stem}.txt").write_text("".join(f"{name}\n" for name in names))
        for place, name in enumerate(names):
            draw(root / name.split()[0], (40 * place % 255, 99, 0), size=(40, 50))


TINY = [
    "data.size=32",
    "model.width=0.0625",
    "stage1.epochs=2",
    "stage1.batch=4",
    "stage1.lr=0.001",
    "selection.every=1",
]


@pytest.mark.parametrize("name", ["imagenet-lt/gcl", "inat2018/ce", "places-lt/gcl"])
def test_a_small_copy_trains_from_lists_to_a_result(tmp_path, monkeypatch, name):
    data = name.split("/")[0]
    small_copy(tmp_path, data, monkeypatch)
    weights = create_backbone("resnet152", width=0.0625).state_dict()
    (tmp_path / "weights").mkdir()
    torch.save(weights, tmp_path / "weights" / "resnet152-394f9c45.pth")
    second = ["stage2.epochs=1", "stage2.batch=4"] if name.endswith("gcl") else []
    words = ["train", name, "--root", str(tmp_path), "--out", str(tmp_path / "run"), "--device", "cpu"]
    for setting in [*TINY, *second]:
        words += ["--set", setting]
    CliRunner().invoke(app, words, catch_exceptions=False)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert not [remark for remark in result["remarks"] if "NaN" in remark]
    assert (result["dataset"]["counts"], result["method"]) == ([4, 2, 1], name.split("/")[1])
    if data == "places-lt":
        trained = load_file(tmp_path / "run" / "model.safetensors")
        assert all(
            trained[f"backbone.{key}"].equal(weights[key]) for key in ("conv1.weight", "layer4.1.bn3.running_var")
        )
