"""A run that starts from the first stage of another one ends bit for bit as if it had trained it itself."""

import pytest
from safetensors.torch import load_file

from helpers.runs import Interrupted, StopAfter, Watcher, same_weights
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import fork_run
from tailcloud.training import loop
from tailcloud.training.devices import pick_device

SHORT = {"stage1": {"epochs": 2}, "stage2": {"epochs": 2}, "model": {"width": 0.25}}
ANOTHER_HEAD = {"head_transform": {"name": "fresh", "kind": "linear"}, "loss": "ce"}


def recipe_of(*settings):
    return load_recipe("digits-lt/gcl", [SHORT, *settings])


def trained(path, recipe, parent=None):
    folder, observer = RunFolder(path), Watcher()
    if parent:
        fork_run(parent, folder, recipe, "tailcloud train")
    else:
        folder.create(recipe)
    result = loop.train(recipe, open_dataset("digits-lt"), folder, pick_device("cpu"), observer)
    return folder, result, observer


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "parent", recipe_of())[0]


@pytest.mark.parametrize(
    "change",
    [{"sampler": "sqrt"}, {"head_transform": "fresh"}, ANOTHER_HEAD, {"epochs": 0}],
    ids=["another sampler", "a fresh head", "another head", "no epochs"],
)
def test_a_branch_ends_as_the_whole_run_does(parent, tmp_path, change):
    recipe = recipe_of({"stage2": change})
    whole, expected, _ = trained(tmp_path / "whole", recipe)
    branched, result, observer = trained(tmp_path / "branch", recipe, parent)
    assert [line["stage"] for line in observer.lines] == ["stage2"] * recipe.stage2.epochs
    assert not observer.notes
    assert same_weights(whole.path, branched.path)
    assert result.per_class == expected.per_class
    assert result.stages[0].top1 == expected.stages[0].top1
    assert [line["stage"] for line in branched.log()] == ["stage1"] * 2 + ["stage2"] * recipe.stage2.epochs


def test_a_first_stage_that_was_evaluated_more_often_is_the_same(parent, tmp_path):
    every = recipe_of({"selection": {"every": 1}})
    assert parent.recipe().selection.every == "auto"
    branched, result, observer = trained(tmp_path / "child", every, parent)
    assert [line["stage"] for line in observer.lines] == ["stage2"] * 2
    assert load_file(branched.weights_file).keys() == load_file(parent.weights_file).keys()
    assert result.stages[0].best.evaluated_epochs == 2


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"seed": 1}, "seed"),
        ({"stage1": {"lr": 0.2}}, "stage1.lr"),
        ({"data": "digits-lt:20"}, "data"),
        ({"augment": {"flip": True}}, "augment.flip"),
        ({"model": {"width": 0.5}}, "model.width"),
        ({"selection": {"pick": "best"}}, "selection.pick"),
    ],
)
def test_another_first_stage_is_refused(parent, tmp_path, setting, field):
    with pytest.raises(TailcloudError, match=f"cannot be used: its {field} is"):
        fork_run(parent, RunFolder(tmp_path / "child"), recipe_of(setting), "")
    assert not (tmp_path / "child").exists()


def test_a_first_stage_that_is_not_over_is_refused(tmp_path):
    folder = RunFolder(tmp_path / "started")
    folder.create(recipe_of())
    with pytest.raises(TailcloudError, match=r"stage1-0000002\.safetensors"):
        fork_run(folder, RunFolder(tmp_path / "child"), recipe_of(), "")


def test_a_run_that_is_there_is_not_overwritten(parent, tmp_path):
    child, _, _ = trained(tmp_path / "child", recipe_of())
    with pytest.raises(TailcloudError, match="already holds a run"):
        fork_run(parent, child, recipe_of(), "")


def test_a_head_that_changed_resumes_in_the_middle_of_its_stage(parent, tmp_path):
    recipe = recipe_of({"stage2": ANOTHER_HEAD})
    whole, _, _ = trained(tmp_path / "whole", recipe, parent)
    cut = RunFolder(tmp_path / "cut")
    fork_run(parent, cut, recipe, "")
    dataset, device = open_dataset("digits-lt"), pick_device("cpu")

    once = recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"checkpoint_seconds": 0.0})})
    with pytest.raises(Interrupted):
        loop.train(once, dataset, cut, device, StopAfter(1))
    again = Watcher()
    loop.train(once, dataset, cut, device, again)
    assert [line["stage"] for line in again.lines] == ["stage2"]
    assert same_weights(whole.path, cut.path)
