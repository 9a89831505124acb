"""The estimates are the arithmetic that the page describes, and say so when a figure is missing."""

import re

import large_benchmark_cost
import large_benchmark_cost_table
import pytest
from large_benchmark_cost import BENCHMARKS

from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.recipe import load_recipe

ABOUT = {"gpu": "a card", "torch": "2.13", "processor": "a chip"}
DECODING = {
    "side": 256,
    "machine": ABOUT,
    "commit": "abc",
    "rows": [{"data": "imagenet-lt", "width": 500, "height": 375, "bytes": 1e5, "images_per_second": 200.0}],
}
STREAMING = {
    "backbone": "resnet50",
    "size": 224,
    "batch": 256,
    "machine": ABOUT,
    "commit": "def",
    "rows": [
        {"name": "decoding", "reason": None, "images_per_second": 900.0},
        {"name": "cache in memory", "reason": "no room", "images_per_second": None},
        {"name": "on the device", "reason": None, "images_per_second": 2000.0},
    ],
}
FORWARD = 2 * (4_087_136_256 + 2048 * 1000)  # ResNet-50 at 224 pixels: multiply-adds of its convolutions and its head


def page(*streaming):
    return "\n".join(large_benchmark_cost_table.parts([DECODING], streaming))


def row(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def test_resnet_50_is_counted_as_everybody_counts_it():
    work = large_benchmark_cost.work_of(BENCHMARKS[0])
    assert work.forward == FORWARD
    assert work.first == 3 * FORWARD
    assert work.parameters == 23_508_032 + 2048 * 1000
    assert BENCHMARKS[0].backbone == "ResNet-50"
    assert BENCHMARKS[2].backbone == "ResNet-152"


def test_a_run_on_one_gpu_is_its_passes_at_the_measured_speed():
    passes = 115_846 * (200 * 3 + 30) + 50_000 * (20 + 3 + 4) + 20_000 * (20 + 3 + 1)
    found = large_benchmark_cost.estimate(BENCHMARKS[0], 2000 * 3 * FORWARD, 1)
    assert found.seconds == pytest.approx(passes / 3 / 2000, rel=1e-3)  # the head's gradients in stage 2
    assert found.money == pytest.approx(found.seconds / 3600 * large_benchmark_cost.PRICE)
    assert found.waiting == found.traffic == 0


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.spec)
def test_benchmarks_are_those_of_the_recipes(benchmark):
    recipe = load_recipe(f"{benchmark.spec}/gcl")
    assert [stage.epochs for stage in recipe.stages.values()] == [*benchmark.epochs]
    assert {stage.batch for stage in recipe.stages.values()} == {benchmark.batch}
    assert recipe.selection.every == benchmark.every
    images = {"val": 0, **EDITIONS[benchmark.spec].images}
    assert images == {"train": benchmark.train, "val": benchmark.val, "test": benchmark.test}


def test_a_cache_holds_all_parts():
    assert large_benchmark_cost.cache_bytes(BENCHMARKS[0]) == 3 * (115_846 * 256**2 + 70_000 * 224**2)


def test_a_frozen_trunk_is_passed_once_and_sends_no_gradients():
    places = large_benchmark_cost.work_of(BENCHMARKS[2])
    assert places.first < 1.1 * places.forward
    block = 2048 * 512 + 512 * 512 * 9 + 512 * 2048 + 2 * (512 + 512 + 2048)  # convolutions and batch norms
    assert places.moving == block + 2048 * 365


def test_gradients_that_take_longer_than_a_step_are_waited_for():
    speed = 2000 * 3 * FORWARD
    found, work = large_benchmark_cost.estimate(BENCHMARKS[0], speed, 64), large_benchmark_cost.work_of(BENCHMARKS[0])
    assert found.traffic == pytest.approx(2 * 63 / 64 * 4 * work.parameters)
    steps = 227 * 200
    computing = work.total / (64 * 0.7 * speed)
    hidden = 115_846 * 200 * work.first / (64 * 0.7 * speed)
    assert found.seconds == pytest.approx(computing - hidden + max(hidden, steps * found.traffic / 25e9))
    assert large_benchmark_cost.estimate(BENCHMARKS[0], speed, 8).waiting == 0


def test_the_page_says_which_figure_is_missing_and_fills_in_once_it_is_there():
    text = page()
    assert text.count("not measured yet") == 4
    assert "hours" not in text.replace("GPU hour", "")
    assert row(text, "| JPEG 500").startswith(
        "| JPEG 500 × 375, 100 kB, to 256 × 256: images a second and core | 200 |"
    )
    text = page(STREAMING)
    assert "not measured yet" not in text
    assert re.search(r"2,000 \(49.1.TFLOP/s\) \| batches of 256, a card, torch 2.13, commit `def`", text)
    assert re.match(r"\| imagenet-lt \| 1 \| 3.46 \| 10 \| 0 \| 0 % \|", row(text, "| imagenet-lt | 1 |"))
    assert "| imagenet-lt | 2,000 | 10 | 0.39 |" in text


@pytest.mark.parametrize(
    "change",
    [{"backbone": "resnet18"}, {"size": 64}, {"machine": {**ABOUT, "gpu": None}}, {"rows": STREAMING["rows"][1:2]}],
)
def test_a_record_of_something_else_is_no_basis(change):
    assert large_benchmark_cost_table.training_speed([{**STREAMING, **change}]) is None
