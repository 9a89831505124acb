"""The loop: what a run leaves behind, that it repeats, resumes, and stops when it must."""

import copy
import json
import math

import pytest
import torch
from safetensors.torch import load_file

from helpers.runs import Interrupted, StopAfter, Watcher, logged, run, same_weights, small_recipe
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.result import BestEpoch
from tailcloud.serving.evaluate import evaluate_run
from tailcloud.training import engine, schedule
from tailcloud.training.session import Session


def test_a_run_folder_holds_what_it_promises(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert {"recipe.toml", "log.jsonl", "result.json", "model.safetensors", "model.json", "checkpoint"} <= names
    result = json.loads((finished_run / "result.json").read_text())
    assert result["format"] == 1
    assert result["method"] == "gcl"
    assert set(result["top1"]) == {"last", "best", "best_on", "best_epoch", "evaluated_epochs"}
    assert result["top1"]["best_on"] == "test"
    assert [stage["name"] for stage in result["stages"]] == ["stage1", "stage2"]
    assert result["dataset"]["counts"] == [120, 77, 50, 32, 21, 13, 8, 5, 3, 2]
    assert result["protocol"] == {"seed": 0, "selection": "last", "split": 0.0, "every": "auto"}
    assert len(result["per_class"]) == 10
    lines = [json.loads(text) for text in (finished_run / "log.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        ("stage1", 1),
        ("stage1", 2),
        ("stage1", 3),
        ("stage2", 1),
        ("stage2", 2),
    ]
    assert result["top1"]["last"] == lines[-1]["top1"] == result["stages"][-1]["top1"]
    assert result["top1"]["best"] == max(line["top1"] for line in lines[3:])
    assert not any(math.isnan(line["loss"]) for line in lines)


def test_stage_two_moves_the_head_and_nothing_else(tmp_path):
    run(tmp_path / "one", small_recipe({"stage2": {"epochs": 0}}))
    run(tmp_path / "two", small_recipe({"stage2": {"epochs": 2}}))
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight"}


def test_moving_batch_norm_statistics_move_without_the_weights(tmp_path):
    run(tmp_path / "one", small_recipe({"stage2": {"epochs": 0}}))
    run(tmp_path / "two", small_recipe({"stage2": {"epochs": 1, "batch_norm": "moving"}}))
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    changed = {name.rpartition(".")[2] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"weight", "running_mean", "running_var", "num_batches_tracked"}
    assert torch.equal(before["backbone.conv1.weight"], after["backbone.conv1.weight"])


def test_a_fresh_head_forgets_stage_one(tmp_path):
    watcher = Watcher()
    run(
        tmp_path / "fresh",
        small_recipe({"stage1": {"epochs": 12}, "stage2": {"epochs": 1, "head_transform": "fresh", "lr": 1e-9}}),
        watcher,
    )
    assert watcher.lines[-1]["top1"] < watcher.lines[-2]["top1"]


def test_the_same_recipe_is_the_same_run(tmp_path, finished_run):
    again = RunFolder(finished_run).recipe()
    run(tmp_path / "again", again)
    assert same_weights(finished_run, tmp_path / "again")
    run(tmp_path / "other", small_recipe({"seed": 1}))
    assert not same_weights(finished_run, tmp_path / "other")


BALANCED_PATCHES = {"mixup": 0.0, "cutmix": 1.0, "cutmix_sampler": "cb", "cutmix_probability": 0.5}


@pytest.mark.parametrize("first", [{"mixup": 0.4, "cutmix": 1.0}, BALANCED_PATCHES], ids=["same batch", "balanced"])
def test_an_interrupted_run_repeats_its_augmentations_and_mixing(tmp_path, first):
    augment = {"trivial_augment": True, "random_erasing": 0.5, "cutout": 2}
    recipe = small_recipe({"augment": augment, "stage1": first, "stage2": {"cutmix": 1.0}})
    run(tmp_path / "undisturbed", recipe)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(2))
    run(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "undisturbed", tmp_path / "broken")


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
@pytest.mark.parametrize("pick", ["last", "best"])
def test_an_interrupted_run_ends_where_it_would_have_ended(tmp_path, epochs, pick):
    recipe = small_recipe({"selection": {"pick": pick, "split": 0.2}})
    undisturbed = run(tmp_path / "undisturbed", recipe)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(epochs))
    resumed = run(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "undisturbed", tmp_path / "broken")
    for key in ("top1", "per_class", "many", "few", "ece", "confusion", "picked"):
        assert getattr(resumed, key) == getattr(undisturbed, key)
    assert logged(tmp_path / "undisturbed") == logged(tmp_path / "broken")


def test_a_truncated_checkpoint_is_passed_over(tmp_path):
    recipe = small_recipe()
    run(tmp_path / "undisturbed", recipe)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(2))
    newest = sorted((tmp_path / "broken" / "checkpoint").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    watcher = Watcher()
    run(tmp_path / "broken", recipe, watcher)
    assert "is truncated" in watcher.notes[0]
    assert watcher.stages[0] == ("stage1", 1)
    assert same_weights(tmp_path / "undisturbed", tmp_path / "broken")


def test_an_altered_checkpoint_is_noticed(tmp_path):
    recipe = small_recipe()
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(1))
    (only,) = (tmp_path / "run" / "checkpoint").iterdir()
    content = bytearray(only.read_bytes())
    content[-1] ^= 1
    only.write_bytes(content)
    with pytest.raises(TailcloudError, match=r"all checkpoints .* are damaged"):
        run(tmp_path / "run", recipe)


def test_a_diverging_loss_stops_with_epoch_step_and_causes_and_keeps_the_good_checkpoint(tmp_path, monkeypatch):
    recipe = small_recipe()
    monkeypatch.setattr(schedule, "learning_rates", lambda stage, epoch, steps: [0.1 if epoch < 1 else 1e30] * steps)
    with pytest.raises(TailcloudError, match=r"in stage1, epoch 2, step \d of 6; .*learning rate.*--set stage1.lr="):
        run(tmp_path / "run", recipe)
    assert [path.name for path in (tmp_path / "run" / "checkpoint").iterdir()] == ["stage1-0000001.safetensors"]
    assert len(RunFolder(tmp_path / "run").log()) == 1


def test_other_data_is_refused_on_resume(tmp_path, monkeypatch):
    recipe = small_recipe()
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(1))
    monkeypatch.setattr("helpers.runs.open_dataset", lambda *_: open_dataset("digits-lt:20"))
    with pytest.raises(TailcloudError, match="is not the data this run was started on"):
        run(tmp_path / "run", recipe)


def test_a_changed_recipe_is_refused_on_resume(tmp_path):
    recipe = small_recipe()
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(1))
    with pytest.raises(TailcloudError, match=r"changed since the last checkpoint: seed was 0 and is now 1"):
        run(tmp_path / "run", recipe.model_copy(update={"seed": 1}))


def test_another_environment_is_said_on_resume(tmp_path, monkeypatch):
    recipe = small_recipe()
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(1))
    here = engine.environment(torch.device("cpu"))
    monkeypatch.setattr(engine, "environment", lambda device: here | {"torch": "9.9"})
    watcher = Watcher()
    run(tmp_path / "run", recipe, watcher)
    assert any("continues with 9.9" in note for note in watcher.notes)


def test_a_held_out_part_decides_and_is_labelled(tmp_path):
    result = run(tmp_path / "run", small_recipe({"selection": {"split": 0.2, "pick": "best"}}))
    log = RunFolder(tmp_path / "run").log()
    assert result.protocol.selection == "best on val"
    assert result.top1.best_on == "val"
    second = [line for line in log if line["stage"] == "stage2"]
    best = max(second, key=lambda line: line["val_top1"])
    assert result.top1.best_epoch == BestEpoch(stage="stage2", epoch=best["epoch"])
    assert result.top1.best == best["top1"] == result.picked.top1 == result.stages[-1].picked.top1
    assert result.picked.epoch == best["epoch"]
    assert result.picked.few == best["few"]
    assert result.top1.last == log[-1]["top1"] == result.stages[-1].top1
    assert result.few == log[-1]["few"]
    assert evaluate_run(tmp_path / "run", open_dataset("digits-lt"), torch.device("cpu"))["top1"] == best["top1"]
    assert result.dataset.images["val"] == 331 - sum(result.dataset.counts) > 0


def test_picking_on_the_test_set_is_labelled(tmp_path):
    result = run(tmp_path / "run", small_recipe({"selection": {"pick": "best"}}))
    assert result.protocol.selection == "best on test"
    assert result.picked.on == "test"


def test_other_weights_are_predicted_anew():
    session = Session(small_recipe(), open_dataset("digits-lt"), torch.device("cpu"))
    before = session.predict(session.inputs.test, 1.0)
    assert session.predict(session.inputs.test, 1.0) is before
    weights = {name: -value for name, value in session.model.state_dict().items()}
    session.load_weights(weights)
    after = session.predict(session.inputs.test, 1.0)
    assert (after.predicted != before.predicted).any()
    session.use_head(copy.deepcopy(session.model.head))
    assert session.predict(session.inputs.test, 1.0) is not after


def test_evaluating_less_often_still_evaluates_the_last_epoch(tmp_path):
    watcher = Watcher()
    run(tmp_path / "run", small_recipe({"selection": {"every": 2}}), watcher)
    assert ["top1" in line for line in watcher.lines] == [False, True, True, False, True]


def test_weights_that_have_not_changed_are_evaluated_once(tmp_path, monkeypatch):
    """After the last epoch of a stage nothing is predicted again: not for its result, not for the examples."""
    predict, passes = Session.predict_share, []
    monkeypatch.setattr(Session, "predict_share", lambda *words: passes.append(words) or predict(*words))
    result = run(tmp_path / "run", small_recipe())
    assert len(passes) == len(RunFolder(tmp_path / "run").log()) == 5
    assert result.top1.last == evaluate_run(tmp_path / "run", open_dataset("digits-lt"), torch.device("cpu"))["top1"]


def test_cross_entropy_has_one_stage(tmp_path):
    result = run(tmp_path / "run", small_recipe(name="digits-lt/ce"))
    assert [stage.name for stage in result.stages] == ["stage1"]


@pytest.mark.parametrize("sampler", ["ib", "cb", "en", "cben", "sqrt"])
def test_every_sampler_trains(tmp_path, sampler):
    result = run(tmp_path / "run", small_recipe({"stage1": {"epochs": 1}, "stage2": {"epochs": 1, "sampler": sampler}}))
    assert 0 <= result.top1.last <= 100


@pytest.mark.parametrize("method", ["gcl-official", "gcl-paper"])
def test_every_method_trains(tmp_path, method):
    assert run(tmp_path / "run", small_recipe(name=f"digits-lt/{method}")).method == method


def test_a_lost_log_is_said_on_resume(tmp_path):
    recipe = small_recipe()
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(2))
    (tmp_path / "run" / "log.jsonl").unlink()
    watcher = Watcher()
    run(tmp_path / "run", recipe, watcher)
    assert any("lacks some of the 2 finished epochs" in note for note in watcher.notes)
