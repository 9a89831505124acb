"""Runs with another optimiser, a bound on gradients and an average of weights."""

import pytest
import torch
from safetensors.torch import load_file

from helpers.runs import Interrupted, StopAfter, run, same_weights, small_recipe
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe, parse_setting
from tailcloud.runs.checkpoint import load_latest_checkpoint, save_checkpoint
from tailcloud.serving.evaluate import evaluate_run
from tailcloud.training import loop

ADAMW = {"optimizer": {"name": "adamw", "beta2": 0.99}, "lr": 0.003, "clip": 1.0, "ema": 0.9}

PLAIN = {"nesterov": False}
SHARP = {"stage1": {"sam": 0.1, "ema": 0.9, "clip": 1.0, "optimizer": {"name": "sgd", "nesterov": True}}}


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averaged") / "whole"
    run(folder, small_recipe({"stage1": ADAMW, "stage2": {"ema": 0.5}}))
    return folder


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_a_run_that_is_broken_off_ends_with_the_same_bits(averaged, tmp_path, epochs):
    recipe = small_recipe({"stage1": ADAMW, "stage2": {"ema": 0.5}, "engine": {"checkpoint_seconds": 0.0}})
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(epochs))
    run(tmp_path / "run", recipe)
    assert same_weights(averaged, tmp_path / "run")


def test_a_run_with_sam_that_is_broken_off_ends_with_the_same_bits(tmp_path):
    recipe = small_recipe(SHARP, {"stage2": {"sam": 0.05}})
    run(tmp_path / "whole", recipe)
    for _ in range(2):
        with pytest.raises(Interrupted):
            run(tmp_path / "run", recipe, StopAfter(2))
    run(tmp_path / "run", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "run")
    run(tmp_path / "blunt", small_recipe(SHARP, {"stage1": {"sam": 0.0}}))
    assert not same_weights(tmp_path / "whole", tmp_path / "blunt")


def test_the_model_of_a_run_is_the_average(averaged):
    again = evaluate_run(averaged, open_dataset("digits-lt"), torch.device("cpu"))
    assert again["top1"] == loop.RunFolder(averaged).log()[-1]["top1"]
    checkpoint, _ = load_latest_checkpoint(averaged / "checkpoint")
    model = load_file(averaged / "model.safetensors")
    assert torch.equal(checkpoint.tensors["model.head.weight"], model["head.weight"])
    assert not torch.equal(checkpoint.tensors["average.head.weight"], model["head.weight"])  # what training had


def test_an_average_does_not_change_how_the_weights_move(tmp_path):
    settings = {"stage1": {"epochs": 2}, "stage2": {"epochs": 0}}
    losses = []
    for ema in (0.0, 0.9):
        folder = tmp_path / str(ema)
        run(folder, small_recipe(settings, {"stage1": {"ema": ema}}))
        losses.append([line["loss"] for line in loop.RunFolder(folder).log()])
    assert losses[0] == losses[1]
    assert not same_weights(tmp_path / "0.0", tmp_path / "0.9")


def test_a_recipe_without_the_new_fields_is_what_it_was():
    recipe = load_recipe("cifar10-lt/gcl")
    for stage in recipe.stages.values():
        assert (stage.optimizer.name, stage.optimizer.options, stage.clip, stage.ema) == ("sgd", PLAIN, 0.0, 0.0)
        assert stage.sam == 0.0


def test_options_of_an_optimizer_have_their_defaults():
    recipe = load_recipe("digits-lt/ce", [parse_setting("stage1.optimizer=adamw")])
    assert recipe.stage1.optimizer.options == {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def test_a_checkpoint_from_before_there_were_others_is_gone_on_with(tmp_path):
    recipe = small_recipe({"engine": {"checkpoint_seconds": 0.0}})
    run(tmp_path / "whole", recipe)
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(2))
    checkpoints = tmp_path / "run" / "checkpoint"
    checkpoint, _ = load_latest_checkpoint(checkpoints)
    assert {name.partition(".")[0] for name in checkpoint.tensors} == {"model", "momentum"}
    for stage in ("stage1", "stage2"):
        for field in ("optimizer", "clip", "ema", "sam"):
            del checkpoint.state["recipe"][stage][field]
    save_checkpoint(checkpoints, "stage1", 2, checkpoint)
    run(tmp_path / "run", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "run")
