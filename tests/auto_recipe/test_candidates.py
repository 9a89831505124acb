import pytest
import torch

from helpers.photos import photos, photos_of_side
from tailcloud.auto_recipe.candidates import (
    pretrained_candidates,
    pretrained_sides,
    pretrained_start,
    scratch_candidates,
)
from tailcloud.auto_recipe.draft import fields_of
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LITE0 = ("efficientnet_lite0", "pretrained")


def base_of(dataset, *asked):
    return load_recipe(None, [{"data": dataset.spec}, *asked])


def start(dataset, *asked, **options):
    return pretrained_start(dataset, base_of(dataset, *asked), set(fields_of(asked)), **options)


def candidates(dataset, device, *asked, **options):
    return pretrained_candidates(dataset, device, base_of(dataset, *asked), set(fields_of(asked)), **options)


@pytest.mark.parametrize("native", [20, 32, 64, 500])
def test_a_users_images_start_from_the_default_network(native):
    assert start(photos_of_side(native)) == LITE0


@pytest.mark.parametrize(
    "asked",
    [
        {"model": {"weights": "none"}},
        {"model": {"width": 0.5}},
        {"model": {"branches": 2}},
        {"method": "bbn"},  # two branches
        {"model": {"backbone": "resnet20"}},  # no weights of it are known
        {"model": {"backbone": "resnet50"}},  # its weights are known, and not here
    ],
)
def test_some_networks_are_trained_from_scratch(asked, monkeypatch, tmp_path):
    monkeypatch.setattr("tailcloud.weights.hub.cached_file", lambda source: None)
    assert start(photos_of_side(64), asked) is None
    assert candidates(photos_of_side(64), CPU, asked) == []


def test_tiny_images_and_benchmarks_are_trained_from_scratch():
    assert start(photos_of_side(19)) is None
    assert start(photos_of_side(8)) is None
    assert start(open_dataset("digits-lt", "data")) is None


def test_the_default_network_without_its_weights_is_trained_from_scratch(monkeypatch):
    monkeypatch.setattr("tailcloud.auto_recipe.candidates.available", lambda name: False)
    assert start(photos_of_side(64)) is None


def test_a_backbone_that_is_named_starts_from_its_weights_if_they_are_here(monkeypatch):
    monkeypatch.setattr("tailcloud.auto_recipe.candidates.available", lambda name: name == "resnet18")
    assert start(photos_of_side(64), {"model": {"backbone": "resnet18"}}) == ("resnet18", "pretrained")
    assert start(photos_of_side(64), {"model": {"backbone": "resnet50"}}) is None


@pytest.mark.parametrize("native", [8, 64])
def test_weights_that_are_named_are_used_whatever_the_images(native):
    asked = {"model": {"weights": "pretrained"}}
    assert start(photos_of_side(native), asked) == LITE0
    with_backbone = {"model": {"backbone": "resnet50", "weights": "pretrained"}}
    assert start(photos_of_side(native), with_backbone) == ("resnet50", "pretrained")
    file = {"model": {"weights": "somewhere/resnet18-f37072fd.pth"}}
    assert start(photos_of_side(native), file) == ("resnet18", "somewhere/resnet18-f37072fd.pth")


def test_a_file_in_the_folder_weights_comes_before_the_default_network(tmp_path):
    asked = {"root": str(tmp_path)}
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "notes.txt").touch()
    (folder / "mystery.pth").touch()
    assert start(photos_of_side(64), asked) == LITE0
    (folder / "resnet18-f37072fd.pth").touch()
    assert start(photos_of_side(64), asked) == ("resnet18", str(folder / "resnet18-f37072fd.pth"))
    assert start(photos_of_side(64), asked, {"model": {"weights": "none"}}) is None
    assert start(photos_of_side(64), asked, {"model": {"backbone": "efficientnet_lite0"}}) == LITE0


@pytest.mark.parametrize(
    ("native", "sides"),
    [
        (32, [128, 96]),
        (64, [128, 96]),
        (96, [128, 96]),
        (100, [160, 128, 96]),
        (140, [224, 192, 160, 128, 96]),
        (500, [224, 192, 160, 128, 96]),
    ],
)
def test_images_are_enlarged_a_little_but_to_128_pixels_at_least(native, sides):
    dataset = photos_of_side(native)
    assert pretrained_sides(dataset, base_of(dataset)) == sides


@pytest.mark.parametrize(("asked", "resizable"), [({"data": {"spec": "./photos", "size": 70}}, True), ({}, False)])
def test_a_fixed_size_is_kept(asked, resizable):
    large = photos([6, 3], side=80)
    found = candidates(large, CPU, asked, resizable=resizable)
    assert [(each.side, each.part, each.resize) for each in found] == [
        (80, part, False) for part in ("all", "last", "head")
    ]
    scratch = scratch_candidates(large, CPU, base_of(large, asked), resizable=resizable)
    assert {(each.side, each.resize) for each in scratch} == {(80, False)}


def test_a_fixed_size_that_is_too_small_for_the_network_is_trained_from_scratch():
    small = photos_of_side(40)
    assert start(small, resizable=False) is None
    assert start(small, {"data": {"spec": "./photos", "size": 40}}) is None
    assert start(small, {"model": {"weights": "pretrained"}}, resizable=False) == LITE0


@pytest.mark.parametrize(
    ("device", "asked", "parts"),
    [
        (CPU, {}, ["all", "last", "head"]),
        (CUDA, {}, ["all", "head"]),
        (CPU, {"stage1": {"train": "backbone+head"}}, ["all"]),
        (CPU, {"stage1": {"train": "head"}}, ["head"]),
        (CUDA, {"stage1": {"train": "head", "views": 0}}, ["all"]),  # on images, not on features
    ],
)
def test_all_of_the_network_then_its_last_layers_then_its_head(device, asked, parts):
    found = candidates(photos_of_side(500), device, asked)
    assert list(dict.fromkeys(each.part for each in found)) == parts
    smallest = {"all": 128, "last": 96, "head": 96}
    for part in parts:
        sides = [each.side for each in found if each.part == part]
        assert sides == [side for side in (224, 192, 160, 128, 96) if side >= smallest[part]]
