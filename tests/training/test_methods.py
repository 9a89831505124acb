"""Every method of one stage trains on digits, as its file says."""

import pytest
import torch

from helpers.runs import SMALL, Interrupted, StopAfter, Watcher, losses_of, run, same_weights
from tailcloud.recipe import load_recipe, resolve, shipped

ONE_STAGE = [name for name in shipped("methods") if resolve({"method": name}).stage2 is None]
SHORT = {"model": {"width": 0.25}, "stage1": {"epochs": 2}, "engine": SMALL["engine"]}


def short_recipe(method, *settings):
    return load_recipe(f"digits-lt/{method}", [SHORT, *settings])


@pytest.mark.parametrize("method", ONE_STAGE)
def test_it_trains_for_two_epochs(tmp_path, method):
    watcher = Watcher()
    result = run(tmp_path / "run", short_recipe(method), watcher)
    first, second = (line["loss"] for line in watcher.lines)
    assert second < first
    assert result.method == method
    assert [stage.name for stage in result.stages] == ["stage1"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", ONE_STAGE)
def test_a_graph_trains_it_as_eager_steps_do(tmp_path, method):
    losses = []
    for executor in ("eager", "graphed"):
        setting = {"stage1": {"epochs": 5}, "engine": {"executor": executor, "kernels": "plain"}}
        losses.append(losses_of(tmp_path / executor, short_recipe(method, setting), "cuda"))
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("focal", {"focal": 1.0, "form": "softmax", "weights": "none"}),
        ("cb-ce", {"scale": 1.0, "weights": "effective", "beta": 0.9999, "defer": 0.0}),
        ("cb-focal", {"focal": 1.0, "form": "sigmoid", "weights": "effective", "beta": 0.9999, "defer": 0.0}),
        ("ldam", {"scale": 30.0, "margin": 0.5, "weights": "none"}),
        ("ldam-drw", {"scale": 30.0, "margin": 0.5, "weights": "effective", "beta": 0.9999, "defer": 0.8}),
        ("logit-adjust", {"tau": 1.0}),
        ("vs", {"tau": 1.0, "gamma": 0.05, "smoothing": 0.0}),
        ("eql", {"threshold": 0.005, "probability": 0.95}),
        ("lade", {"alpha": 0.1, "lam": 0.01}),
    ],
)
def test_it_has_the_published_settings(method, options):
    recipe = resolve({"method": method})
    assert recipe.stage1.loss.options.items() >= options.items()
    assert recipe.model.head == ("cosine" if method.startswith("ldam") else "linear")
    assert (recipe.stage1.epochs, recipe.stage1.mixup, recipe.stage1.sampler.name) == (200, 0.0, "ib")


def test_adjusted_gcl_is_the_first_stage_of_gcl_with_an_adjustment():
    clouded, adjusted = (resolve({"method": method}) for method in ("gcl", "gcl-logit-adjust"))
    loss = clouded.stage1.loss.model_copy(update={"tau": 1.0})
    assert adjusted.stage1 == clouded.stage1.model_copy(update={"loss": loss})
    assert (adjusted.model, adjusted.stage2) == (clouded.model, None)


def test_cross_entropy_with_mixup_is_cross_entropy_with_mixup():
    plain, mixed = (resolve({"method": method}).stage1 for method in ("ce", "ce-mixup"))
    assert mixed == plain.model_copy(update={"mixup": 1.0})


def test_weights_that_start_late_change_the_epochs_after_and_none_before(tmp_path):
    losses = {}
    for weights in ("none", "effective"):
        watcher, setting = Watcher(), {"stage1": {"epochs": 5, "loss": {"weights": weights, "beta": 0.99}}}
        run(tmp_path / weights, short_recipe("ldam-drw", setting), watcher)
        losses[weights] = [line["loss"] for line in watcher.lines]
    same = [a == b for a, b in zip(*losses.values(), strict=True)]
    assert same == [True] * 4 + [False]


@pytest.mark.parametrize("stop", [3, 4])
def test_a_run_that_changes_on_its_way_resumes_bit_for_bit(tmp_path, stop):
    """Deferred weights start in the fifth epoch, and the sampler moves in every one."""
    recipe = short_recipe("ldam-drw", {"stage1": {"epochs": 5, "sampler": "pb", "loss": {"beta": 0.99}}})
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(stop))
    for folder in ("broken", "whole"):
        run(tmp_path / folder, recipe)
    assert same_weights(tmp_path / "broken", tmp_path / "whole")
