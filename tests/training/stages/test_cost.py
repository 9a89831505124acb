"""What a stage takes."""

import pytest

from tailcloud.classifier import Architecture, cost
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe, parse_setting
from tailcloud.training.run_cost import activations_per_step, estimate
from tailcloud.training.stages.cost import copies, flops_per_step, images_per_step, passes, total_flops


def stage_of(method, *settings, name="stage1"):
    return load_recipe(f"digits-lt/{method}", [parse_setting(setting) for setting in settings]).stages[name]


@pytest.mark.parametrize(
    ("method", "streams"), [("ce", 1), ("bbn", 2), ("hybrid-sc", 3), ("hybrid-psc", 3), ("bcl", 3), ("proco", 3)]
)
def test_every_stream_and_view_is_counted(method, streams):
    stage = stage_of(method)
    assert images_per_step(stage) == streams * stage.batch


@pytest.mark.parametrize(
    ("train", "count"), [("all", 3), ("backbone", 3), ("backbone+head", 3), ("head", 1), ("backbone.layer3+head", 1)]
)
def test_a_frozen_backbone_goes_forward_only(train, count):
    assert passes(stage_of("ce", f"stage1.train={train}")) == count


@pytest.mark.parametrize(("train", "count"), [("all", 6), ("head", 2)])
def test_sam_doubles_the_cost_of_a_step(train, count):
    assert passes(stage_of("ce", f"stage1.train={train}", "stage1.sam=0.1")) == count
    plain, sharp = (load_recipe("digits-lt/ce", [{"stage1": {"sam": rho}}]) for rho in (0.0, 0.1))
    assert flops_per_step(sharp, 10) == 2 * flops_per_step(plain, 10)
    assert total_flops(sharp, 7, 10) == 2 * total_flops(plain, 7, 10)
    assert copies(sharp.stage1) == copies(plain.stage1) + 1


def test_what_an_optimiser_remembers_is_counted():
    assert copies(stage_of("ce")) == 3
    assert copies(stage_of("ce", "stage1.optimizer=adamw")) == 4
    assert copies(stage_of("ce", "stage1.optimizer=adamw", "stage1.ema=0.9")) == 5


def test_the_estimate_of_memory_knows_of_it():
    data = open_dataset("digits-lt")
    plain = estimate(load_recipe("digits-lt/ce"), data)
    more = estimate(load_recipe("digits-lt/ce", [parse_setting("stage1.ema=0.9")]), data)
    assert more.memory - plain.memory == 4 * plain.parameters


def test_a_frozen_network_keeps_no_activations():
    """With PyTorch itself, a head on features of EfficientNet-Lite0 at 224 pixels took 0.8 GB."""
    data = open_dataset("digits-lt")
    whole = load_recipe("digits-lt/ce", [{"stage1": {"batch": 64}}])
    head, features = (
        load_recipe("digits-lt/ce", [{"stage1": {"batch": 64, "train": "head", **more}}])
        for more in ({}, {"views": 1, "mixup": 0.0, "batch_norm": "frozen"})
    )
    assert estimate(head, data).memory == estimate(features, data).memory < estimate(whole, data).memory / 2
    model = cost(Architecture(backbone="efficientnet_lite0", head="linear", width=1.0, channels=3, classes=7), 224, 224)
    frozen, trained = (4 * activations_per_step(recipe.stage1, model, 1) for recipe in (head, whole))
    assert 0.3e9 < frozen < 0.8e9
    assert trained > 5e9


def test_less_is_kept_of_a_batch_in_micro_batches():
    data, whole = open_dataset("digits-lt"), {"stage1": {"batch": 50}}
    batch, pieces, images = (
        estimate(load_recipe("digits-lt/ce", [whole, more]), data).memory
        for more in ({}, {"engine": {"accumulate": 4}}, {"stage1": {"batch": 13}})
    )
    assert pieces == images < batch
