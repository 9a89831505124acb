"""The progress of a run: which epoch was best and on which split, and how a run is resumed."""

import numpy as np
import pytest
import torch

from helpers.runs import Watcher, small_recipe
from tailcloud.data import hold_out, open_dataset
from tailcloud.evaluation import Predictions
from tailcloud.runs.checkpoint import TrainingProgress, save_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.training.checkpoint_policy import make_checkpoint
from tailcloud.training.resume import resume
from tailcloud.training.session import Session
from tailcloud.training.stage_metrics import evaluate_epoch
from tailcloud.training.stages.parts import make_parts

CPU = torch.device("cpu")


class Rehearsed(Session):
    """A session whose model is right as often as we say, in percent, on each part of the data."""

    def predict(self, images, scale):
        share = {id(self.images.test): self.on_test, id(self.images.val): self.on_val}[id(images)]
        target = images.labels.numpy()
        predicted = np.where(np.arange(len(target)) < len(target) * share / 100, target, (target + 1) % 10)
        return Predictions(target, predicted, np.ones(len(target)), predicted == target, 5)


def rehearsed(split, pick="best"):
    recipe = small_recipe({"selection": {"split": split, "pick": pick}})
    return Rehearsed(recipe, hold_out(open_dataset(recipe.data.spec, recipe.root), split), CPU)


def play(session, epochs):
    """Evaluate one epoch after another, each with weights that tell them apart."""
    progress = TrainingProgress()
    parts = make_parts(session, "stage1")
    for number, (session.on_val, session.on_test) in enumerate(epochs, start=1):
        with torch.no_grad():
            session.model.head.weight.fill_(number)
        evaluate_epoch(session, parts, progress, number)
    return progress


def test_the_best_epoch_is_chosen_on_validation_and_measured_on_test():
    progress = play(rehearsed(split=0.2), [(20, 80), (90, 30), (50, 50)])
    assert (progress.best["epoch"], progress.best["on"]) == (2, "val")
    assert progress.best["top1"] == pytest.approx(30)
    assert progress.best["by"] == pytest.approx(90, abs=2)
    assert (progress.best_weights["head.weight"] == 2).all()


def test_without_validation_test_decides_and_is_named():
    progress = play(rehearsed(split=0.0), [(None, 20), (None, 80), (None, 50)])
    assert (progress.best["epoch"], progress.best["on"]) == (2, "test")
    assert progress.best["top1"] == pytest.approx(80)
    assert (progress.best_weights["head.weight"] == 2).all()


def test_weights_are_kept_only_where_the_best_are_picked():
    assert play(rehearsed(split=0.2, pick="last"), [(20, 80), (90, 30)]).best_weights == {}


def test_validation_is_in_the_log_beside_test():
    session = rehearsed(split=0.2)
    session.on_val, session.on_test = 100, 40
    line = evaluate_epoch(session, make_parts(session, "stage1"), TrainingProgress(), 1)
    assert (line["val_top1"], line["top1"]) == (100, 40)


def test_the_first_of_equals_stays_the_best():
    progress = TrainingProgress()
    assert progress.note_best(1, by=50.0, top1=1.0, on="val")
    assert not progress.note_best(2, by=50.0, top1=99.0, on="val")
    assert not progress.note_best(3, by=49.0, top1=100.0, on="val")
    assert progress.best["epoch"] == 1
    assert progress.note_best(4, by=51.0, top1=0.0, on="val")
    assert progress.best == {"epoch": 4, "top1": 0.0, "on": "val", "by": 51.0}


def test_a_new_stage_starts_from_nothing_but_its_forerunners():
    progress = TrainingProgress("stage1", 3, 7.5, {"epoch": 1, "by": 1.0}, [{"name": "stage1"}], {"w": torch.ones(1)})
    progress.next_stage("stage2")
    assert progress == TrainingProgress("stage2", 0, 0.0, None, [{"name": "stage1"}], {})


def test_the_state_of_a_run_survives_the_round_trip():
    progress = TrainingProgress("stage2", 3, 7.5, {"epoch": 1, "by": 1.0}, [{"name": "stage1"}])
    assert TrainingProgress(**progress.state()) == progress


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_run_goes_on_with_the_threads_it_was_started_with(tmp_path):
    recipe = small_recipe()
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe)
    data = open_dataset(recipe.data.spec, recipe.root)
    session = Session(recipe, data, CPU)
    checkpoint = make_checkpoint(session, make_parts(session, "stage1"), TrainingProgress(epoch=1))
    save_checkpoint(folder.checkpoints, "stage1", 1, checkpoint)
    torch.set_num_threads(1)
    watcher = Watcher()
    progress, _ = resume(Session(recipe, data, CPU), folder, watcher)
    assert progress.epoch == 1
    assert torch.get_num_threads() == 2
    assert not [note for note in watcher.notes if "continues with" in note]
