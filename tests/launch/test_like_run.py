"""``tailcloud train --like RUN``: another method, trained as the run was."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import tailcloud
from helpers.command_line import printed
from helpers.drawing import draw_classes
from helpers.runs import small_recipe
from tailcloud.errors import UsageError
from tailcloud.launch.like_run import OF_METHOD, recipe_like
from tailcloud.launch.run_plan import TrainRequest, plan_runs
from tailcloud.recipe import load_recipe, shipped
from tailcloud.runs.folder import RunFolder

RUN = {
    "data": {"spec": "./photos", "size": 48},
    "seed": 3,
    "model": {"width": 0.5},
    "augment": {"flip": False, "color_jitter": [0.1, 0.1, 0.1]},
    "selection": {"split": 0.15, "stage": "best", "objective": "balanced", "every": 2},
    "stage1": {"epochs": 37, "batch": 32, "lr": 0.03, "schedule": "cosine", "warmup": 2, "ema": 0.9},
    "stage2": {"epochs": 11, "batch": 48},
    "stage3": {"head_transform": "tuned-logit-adjust"},
}


@pytest.fixture(scope="module")
def gcl():
    return load_recipe("own/gcl", [RUN])


@pytest.mark.parametrize("method", [name for name in shipped("methods") if name != "gcl"])
def test_every_method_takes_the_runs_training_and_keeps_what_makes_it(gcl, method):
    recipe, own = recipe_like(gcl, method), load_recipe(f"own/{method}", [{"data": "./photos"}])
    assert recipe.method == method
    for table in ("data", "augment", "selection", "engine", "seed", "root"):
        assert getattr(recipe, table) == getattr(gcl, table)
    assert (recipe.model.width, recipe.model.head) == (0.5, own.model.head)
    theirs, ours = recipe.stage1.model_dump(), gcl.stage1.model_dump()
    assert {key: theirs[key] for key in theirs if key not in OF_METHOD} == {
        key: ours[key] for key in ours if key not in OF_METHOD
    }
    assert {key: theirs[key] for key in OF_METHOD} == {key: own.stage1.model_dump()[key] for key in OF_METHOD}
    if own.stage2:
        assert recipe.stage2.loss.name == own.stage2.loss.name
        assert recipe.stage2.epochs == (11 if own.stage2.epochs else 0)
    else:
        assert recipe.stage2 is None


def test_the_same_method_is_the_same_recipe(gcl):
    assert recipe_like(gcl, "gcl") == gcl


def test_the_correction_on_held_out_images_goes_with_methods_that_re_balance(gcl):
    assert recipe_like(gcl, "crt").stage3.head_transform.name == "tuned-logit-adjust"
    assert recipe_like(gcl, "crt").stage3.loss == recipe_like(gcl, "crt").stage2.loss
    assert recipe_like(gcl, "logit-adjust").stage3.head_transform.name == "tuned-logit-adjust"
    assert recipe_like(gcl, "bcl").stage3.head_transform.name == "tuned-logit-adjust"  # of its classifier alone
    assert recipe_like(gcl, "ce").stage3 is None
    assert recipe_like(gcl, "disalign").stage3 is None  # a head that has no place for it


def test_the_augmentation_of_further_views_goes_with_methods_that_compare_views():
    run = load_recipe("cifar100-lt/bcl")
    assert recipe_like(run, "proco").view_augment == recipe_like(run, "hybrid-sc").view_augment == run.view_augment
    assert recipe_like(run, "ce").view_augment is None
    assert recipe_like(run, "ce").augment == run.augment


def test_a_head_on_features_stays_on_features():
    features = {"train": "head", "views": 1, "mixup": 0.0, "batch": 16, "epochs": 50, "optimizer": "adamw", "lr": 1e-3}
    model = {"backbone": "efficientnet_lite0", "weights": "pretrained"}
    run = load_recipe("own/ce", [{"data": "./photos", "model": model, "stage1": features}])
    recipe = recipe_like(run, "gcl")
    assert (recipe.stage1.views, recipe.stage1.epochs, recipe.stage1.mixup) == (1, 50, 0.0)
    assert (recipe.stage2.views, recipe.stage2.batch, recipe.stage2.mixup) == (1, 16, 0.0)
    assert (recipe.model.weights, recipe.model.head, recipe.stage1.loss.name) == ("pretrained", "cosine", "gcl")


def test_a_method_is_compared_with_a_run_by_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RunFolder(tmp_path / "first").create(small_recipe({"seed": 4, "stage1": {"epochs": 2}}))
    words = "train --like first --set method=ce --set stage1.lr=0.07 --out second"
    printed(words)
    result = json.loads((tmp_path / "second" / "result.json").read_text())
    assert (result["method"], result["protocol"]["seed"], result["stages"][0]["epochs"]) == ("ce", 4, 2)
    assert result["recipe"]["stage1"]["lr"] == 0.07
    assert result["model"]["width"] == 0.25
    repeated = "tailcloud train --like first --set method=ce --set stage1.lr=0.07 --seed 4"
    assert result["command"] == repeated
    run = tailcloud.train(like="first", settings={"method": "ce", "stage1.epochs": 1}, seed=5, out="third")
    assert (run.recipe.method, run.recipe.seed, run.recipe.stage1.epochs) == ("ce", 5, 1)


def test_stages_that_a_time_budget_ended_have_the_epochs_that_were_trained(finished_run, tmp_path):
    run = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run, run.path)
    result = json.loads(run.result_file.read_text())
    result["stages"][0]["epochs"] = 2
    run.result_file.write_text(json.dumps(result))
    assert run.recipe().stage1.epochs == 3
    (planned,) = plan_runs(TrainRequest(like=run.path, settings=["method=ce"], out=tmp_path / "other"))
    assert planned.recipe.stage1.epochs == 2


def test_a_run_whose_images_moved_is_followed_on_those_that_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(draw_classes(tmp_path, {"photos/cat": 4, "photos/dog": 4}))
    RunFolder(tmp_path / "run").create(load_recipe("own/gcl", [{"data": "photos"}]))
    Path("photos").rename("elsewhere")
    request = TrainRequest(like=tmp_path / "run", out=tmp_path / "other")
    with pytest.raises(tailcloud.errors.TailcloudError, match=r"does not exist in .*; pass where it is now with"):
        plan_runs(request)
    for where in ({"data": "elsewhere"}, {"settings": ["data.spec=elsewhere"]}):
        (planned,) = plan_runs(replace(request, **where))
        assert (planned.recipe.data.spec, planned.recipe.method) == ("elsewhere", "gcl")


def test_what_contradicts_like_is_refused(tmp_path):
    run = tmp_path / "run"
    RunFolder(run).create(small_recipe())
    with pytest.raises(UsageError, match=r"takes the recipe of that run; leave out digits-lt/ce, or --like"):
        plan_runs(TrainRequest(recipes=["digits-lt/ce"], like=run))
    with pytest.raises(UsageError, match=r"trains as long as that run, by epochs; leave out --time-budget, or --like"):
        plan_runs(TrainRequest(time_budget="3m", like=run))
    with pytest.raises(tailcloud.errors.TailcloudError, match="holds no run"):
        plan_runs(TrainRequest(like=tmp_path / "none"))
    with pytest.raises(UsageError, match=r'there is no method "cee"; did you mean "ce"'):
        plan_runs(TrainRequest(like=run, settings=["method=cee"]))


def test_an_objective_that_chooses_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"has no effect, because this recipe keeps the last epoch of the last stage"):
        plan_runs(TrainRequest(recipes=["digits-lt/gcl"], settings=["selection.objective=few"]))
    with pytest.raises(UsageError, match=r"selection.objective = \"rare\" should be 'balanced', 'overall' or 'few'"):
        plan_runs(TrainRequest(recipes=["digits-lt/gcl"], settings=["selection.objective=rare"]))
