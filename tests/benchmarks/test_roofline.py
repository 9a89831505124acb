"""The floors of a small network, counted by hand."""

import pytest
import torch
from roofline import FLOAT, Peak, floor_of, measured_peak, peak_of, size_of

from tailcloud.classifier import Architecture, cost
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe

RESNET8 = Architecture("resnet8", "linear", 1.0, 1, 10)
MAPS = [
    (1, 16, 64),
    (16, 16, 64),
    (16, 16, 64),
    (16, 32, 16),
    (32, 32, 16),
    (32, 64, 4),
    (64, 64, 4),
]  # in, out, pixels
CONVOLUTIONS = [2 * 9 * inputs * outputs * pixels for inputs, outputs, pixels in MAPS]
NUMBERS = sum(outputs * pixels for _, outputs, pixels in MAPS)
HEAD = 2 * 64 * 10


def test_the_size_of_a_network_is_that_of_its_layers():
    size = size_of(RESNET8, 8, 8)
    assert (size.flops, size.first, size.head) == (sum(CONVOLUTIONS) + HEAD, CONVOLUTIONS[0], HEAD)
    assert size.maps == NUMBERS
    assert size.backbone + size.classifier == cost(RESNET8, 8, 8).parameters
    assert size.classifier == 650


def test_an_epoch_is_its_images_forward_and_backward_and_the_test_images_forward():
    dataset = open_dataset("digits-lt")
    floor = floor_of(load_recipe("digits-lt/gcl"), dataset, "float32")
    total, (train, test) = sum(CONVOLUTIONS) + HEAD, (331, 500)
    assert floor.flops["stage1"] == train * (3 * total - CONVOLUTIONS[0]) + test * total
    assert floor.flops["stage2"] == train * (total + HEAD) + test * total
    parameters, steps = 74992, 6
    images = 64 * (train + test)
    assert floor.bytes["stage1"] == images + FLOAT * (NUMBERS * (5 * train + 2 * test) + 6 * steps * parameters)
    assert floor.bytes["stage2"] == images + FLOAT * (NUMBERS * 2 * (train + test) + 6 * steps * 640)


def test_half_precision_halves_the_maps_and_nothing_else():
    dataset, recipe = open_dataset("digits-lt"), load_recipe("digits-lt/gcl")
    full, half = (floor_of(recipe, dataset, precision) for precision in ("float32", "bfloat16"))
    assert half.flops == full.flops
    assert full.bytes["stage1"] - half.bytes["stage1"] == 2 * NUMBERS * (5 * 331 + 2 * 500)


def test_a_run_has_as_many_epochs_as_its_recipe_says():
    floor = floor_of(load_recipe("digits-lt/gcl"), open_dataset("digits-lt"), "float32")
    seconds = floor.seconds(Peak(1e9, 1e6, "invented"), {"stage1": 60, "stage2": 10})
    assert seconds["arithmetic"] == pytest.approx((60 * floor.flops["stage1"] + 10 * floor.flops["stage2"]) / 1e9)
    assert seconds["memory"] == pytest.approx((60 * floor.bytes["stage1"] + 10 * floor.bytes["stage2"]) / 1e6)


def test_a_machine_that_no_table_knows_is_measured():
    peak = measured_peak(torch.device("cpu"), torch.float32, side=64)
    assert peak.source == "measured"
    assert peak.flops > 1e6
    assert peak.bytes > 1e6


def test_the_best_of_two_measurements_counts():
    assert Peak(1.0, 4.0, "measured").or_better(Peak(2.0, 3.0, "measured")) == Peak(2.0, 4.0, "measured")


def test_a_known_gpu_is_looked_up(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    assert peak_of(torch.device("cuda"), "bfloat16").flops == 989e12
