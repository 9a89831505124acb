"""What only a GPU can show: graphs with every optimiser, a graphed run that is broken off, micro-batches."""

from functools import partial

import pytest
import torch

from helpers.runs import Interrupted, StopAfter, run, same_weights, small_recipe
from tailcloud.data import open_dataset
from tailcloud.runs.folder import RunFolder
from tailcloud.training import engine as engines
from tailcloud.training.features.run_features import forget_features
from tailcloud.training.session import Session

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

WAYS = {
    "adamw": {"optimizer": "adamw", "lr": 0.001},
    "clipped": {"clip": 0.5},
    "averaged": {"ema": 0.9},
    "all": {"optimizer": "adamw", "lr": 0.001, "clip": 0.5, "ema": 0.9},
}


on_gpu = partial(run, device="cuda")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_a_graph_ends_where_eager_steps_do(tmp_path, way, kernels):
    for executor in ("eager", "graphed"):
        engine = {"executor": executor, "kernels": kernels}
        result = on_gpu(tmp_path / executor, small_recipe({"stage1": WAYS[way], "engine": engine}))
        assert result.stages[0].executor == executor
    assert same_weights(tmp_path / "eager", tmp_path / "graphed")


@pytest.mark.parametrize("way", WAYS)
def test_a_graphed_run_that_was_broken_off_ends_with_the_same_bits(tmp_path, way):
    recipe = small_recipe({"stage1": {"epochs": 4, **WAYS[way]}, "engine": {"executor": "graphed"}})
    on_gpu(tmp_path / "whole", recipe)
    with pytest.raises(Interrupted):
        on_gpu(tmp_path / "broken", recipe, StopAfter(2))
    on_gpu(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_evaluations_that_are_captured_later_or_never_change_no_weights(tmp_path, kernels):
    """With ``every = 3`` the graph of the evaluation is captured between two epochs that replay the steps."""
    engine = {"executor": "graphed", "kernels": kernels}
    for every in (1, 3, 1000):
        settings = {"stage1": {"epochs": 5, **WAYS["averaged"]}, "selection": {"every": every}, "engine": engine}
        on_gpu(tmp_path / str(every), small_recipe(settings))
    assert same_weights(tmp_path / "1", tmp_path / "3")
    assert same_weights(tmp_path / "1", tmp_path / "1000")


FINE_TUNING = {
    "model": {"backbone": "efficientnet_lite0", "width": 1.0, "drop_path": 0.5},
    "stage1": {
        "epochs": 2,
        "lr": 0.001,
        "optimizer": "adamw",
        "schedule": "cosine",
        "lr_interval": "step",
        "warmup": 0.3,
        "layer_decay": 0.7,
        "decay_norms": False,
        "ema": 0.9,
    },
    "stage2": {"epochs": 1},
}


@pytest.mark.parametrize(("kernels", "optimizer"), [("fused", {}), ("plain", {}), ("fused", {"optimizer": "sgd"})])
def test_graphed_fine_tuning_ends_where_eager_steps_do(tmp_path, kernels, optimizer):
    """Rates that change every step, layer-wise rates, norms without decay, and drop path."""
    for executor in ("eager", "graphed"):
        engine = {"executor": executor, "kernels": kernels}
        result = on_gpu(tmp_path / executor, small_recipe(FINE_TUNING, {"stage1": optimizer, "engine": engine}))
        assert (result.stages[0].executor, result.machine["kernels"]) == (executor, kernels)
    assert same_weights(tmp_path / "eager", tmp_path / "graphed")


@pytest.mark.parametrize("norms", ["moving", "frozen"])
def test_fine_tuning_with_kernels_learns_as_it_does_without(tmp_path, norms):
    changes = {"model": {"drop_path": 0.0}, "stage1": {"batch_norm": norms}}
    for kernels in ("plain", "fused"):
        on_gpu(tmp_path / kernels, small_recipe(FINE_TUNING, changes, {"engine": {"kernels": kernels}}))
    plain, fused = (RunFolder(tmp_path / kernels).log()[0]["loss"] for kernels in ("plain", "fused"))
    assert fused == pytest.approx(plain, rel=0.2)  # both in bfloat16, rounded at other places


def test_a_long_run_has_kernels_for_norms_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "START_SOONER_BELOW", 0)
    recipe = small_recipe(FINE_TUNING, {"stage1": {"epochs": 1}, "stage2": {"epochs": 0}})
    session = Session(recipe, open_dataset(recipe.data.spec, recipe.root), torch.device("cuda"))
    assert (len(session.engine.layers.convolutions), len(session.engine.layers.norms)) == (0, 49)
    assert on_gpu(tmp_path / "run", recipe).machine["kernels"] == "fused"


def test_graphed_fine_tuning_that_was_broken_off_ends_with_the_same_bits(tmp_path):
    recipe = small_recipe(FINE_TUNING, {"engine": {"executor": "graphed"}})
    on_gpu(tmp_path / "whole", recipe)
    with pytest.raises(Interrupted):
        on_gpu(tmp_path / "broken", recipe, StopAfter(1))
    on_gpu(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")


BALANCED_PATCHES = {"mixup": 0.0, "cutmix": 1.0, "cutmix_sampler": "cb", "cutmix_probability": 0.5}


@pytest.mark.parametrize("mixing", [{"mixup": 0.4, "cutmix": 1.0}, BALANCED_PATCHES], ids=["same batch", "balanced"])
@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_a_graph_augments_and_mixes_as_eager_steps_do(tmp_path, mixing, kernels):
    augment = {"auto_augment": "cifar", "random_erasing": 0.5, "cutout": 3}
    for executor in ("eager", "graphed"):
        settings = {"stage1": mixing, "augment": augment, "engine": {"executor": executor, "kernels": kernels}}
        result = on_gpu(tmp_path / executor, small_recipe(settings))
        assert (result.stages[0].executor, result.machine["kernels"]) == (executor, kernels)
    assert same_weights(tmp_path / "eager", tmp_path / "graphed")


@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_a_graph_with_sam_ends_where_eager_steps_do(tmp_path, kernels):
    sharp = {"sam": 0.1, "ema": 0.9, "clip": 1.0, "optimizer": {"name": "sgd", "nesterov": True}}
    for executor in ("eager", "graphed"):
        engine = {"executor": executor, "kernels": kernels}
        on_gpu(tmp_path / executor, small_recipe({"stage1": sharp, "stage2": {"sam": 0.05}, "engine": engine}))
    assert same_weights(tmp_path / "eager", tmp_path / "graphed")


def test_micro_batches_train_as_they_do_on_a_cpu(tmp_path):
    engine = {"kernels": "plain", "executor": "eager", "precision": "float32", "accumulate": 2}
    recipe = small_recipe(
        {"stage1": {"epochs": 1}, "engine": engine}, name="digits-lt/ce"
    )  # clouds are the device's own
    run(tmp_path / "cpu", recipe)
    on_gpu(tmp_path / "cuda", recipe)
    losses = [RunFolder(tmp_path / name).log()[0]["loss"] for name in ("cpu", "cuda")]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)  # with TF32 there


def test_a_stage_on_features_is_graphed_with_the_bits_of_eager_steps_and_those_of_a_broken_run(tmp_path):
    stage2 = {"epochs": 3, "views": 4}
    for executor in ("eager", "auto"):
        engine = {"executor": executor, "kernels": "fused"}
        result = on_gpu(tmp_path / executor, small_recipe({"stage2": stage2, "engine": engine}))
    assert (result.stages[1].executor, result.stages[1].kernels) == ("graphed", "plain")
    assert same_weights(tmp_path / "eager", tmp_path / "auto")
    with pytest.raises(Interrupted):
        on_gpu(tmp_path / "broken", small_recipe({"stage2": stage2, "engine": engine}), StopAfter(4))
    forget_features()
    on_gpu(tmp_path / "broken", small_recipe({"stage2": stage2, "engine": engine}))
    assert same_weights(tmp_path / "auto", tmp_path / "broken")
