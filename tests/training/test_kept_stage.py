"""Which stage's model a run keeps: an earlier one if held-out accuracy does not rise, also after an interruption."""

import json
import re

import numpy as np
import pytest
import torch

from helpers.ranks import in_ranks
from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights, small_recipe
from tailcloud.data import hold_out, open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.evaluation.paired_difference import PairedDifference
from tailcloud.launch.run_data import open_data
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.result import read_result
from tailcloud.serving.evaluate import evaluate_run
from tailcloud.training.kept_stage import compared_stages, is_worse
from tailcloud.training.loop import train
from tailcloud.training.stage_metrics import pack_hits, unpack_hits

CPU = torch.device("cpu")
GOOD = {"stage1": {"epochs": 6, "loss": {"scale": 10.0}, "mixup": 0.0, "batch": 16, "lr": 0.05, "warmup": 0}}
# A fresh head that hardly trains: the second stage loses what the first one learned.
RUINED = {"stage2": {"epochs": 1, "head_transform": "fresh", "lr": 1e-6}}
BEST = {"selection": {"split": 0.2, "stage": "best"}}


def ruined(*settings):
    return small_recipe(GOOD, RUINED, BEST, *settings)


@pytest.fixture(scope="module")
def kept_first(tmp_path_factory):
    """A finished run that keeps its first stage, and what was said."""
    folder, watcher = tmp_path_factory.mktemp("kept") / "run", Watcher()
    run(folder, ruined(), watcher)
    return folder, watcher


def test_the_earlier_model_is_kept_where_held_out_accuracy_does_not_rise(kept_first):
    folder, watcher = kept_first
    result = read_result(folder / "result.json")
    first, second = result.stages
    assert first.balanced_accuracy > second.balanced_accuracy + 20
    assert result.kept_stage.name == "stage1"
    assert (result.top1.last, result.balanced_accuracy, result.few) == (first.top1, first.balanced_accuracy, first.few)
    assert result.top1.best_epoch.stage == "stage1"
    assert result.per_class == first.per_class
    (compared,) = result.kept_stage.comparisons
    assert (compared.earlier, compared.later) == ("stage1", "stage2")
    assert compared.objective.after < compared.objective.before
    ends = [[line for line in watcher.lines if line["stage"] == name][-1] for name in ("stage1", "stage2")]
    for change, figure in ((compared.objective, "val_balanced_accuracy"), (compared.top1, "val_top1")):
        assert (change.before, change.after) == pytest.approx([line[figure] for line in ends])
        assert change.error > 0
    assert result.kept_stage.images == result.dataset.images["val"]
    assert "The model of stage1 is kept" in result.kept_stage.reason
    assert re.search(
        r"balanced accuracy from [\d.]+ to [\d.]+ \(−[\d.]+ points, 95\u00a0%: −", result.kept_stage.reason
    )
    assert result.kept_stage.reason in result.remarks
    assert result.kept_stage.reason in watcher.notes


def test_the_change_of_a_stage_is_recorded_by_shot_group(kept_first):
    folder, _ = kept_first
    first, second = read_result(folder / "result.json").stages
    assert list(second.change.groups) == ["medium", "few"]  # held out, no class has more than 100
    for name, change in second.change.groups.items():
        before, after = (getattr(stage, name) for stage in (first, second))
        assert (change.before, change.after) == pytest.approx((before, after))
        assert change.error > 0


def test_the_model_of_the_folder_is_the_kept_one(kept_first):
    folder, _ = kept_first
    result = read_result(folder / "result.json")
    assert evaluate_run(folder, open_dataset("digits-lt"), CPU)["top1"] == result.stages[0].top1
    model = json.loads((folder / "model.json").read_text())
    assert model["calibration"]["scale"] == 10.0  # of the first stage's loss; the second has 20
    assert result.calibrated.fitted_on == "val"
    assert result.recipe["stage2"]["head_transform"]["name"] == "fresh"  # the recipe is that of the whole run


def test_an_interrupted_run_keeps_the_same_model(kept_first, tmp_path):
    folder, _ = kept_first
    recipe = ruined({"stage2": {"epochs": 1}})
    for epochs in (3, 4):  # in the first stage, and after the only epoch of the second
        with pytest.raises(Interrupted):
            run(tmp_path / "run", recipe, StopAfter(epochs))
    result, whole = run(tmp_path / "run", recipe), read_result(folder / "result.json")
    assert same_weights(tmp_path / "run", folder)
    assert result.kept_stage == whole.kept_stage
    assert result.stages[1].change == whole.stages[1].change


@pytest.mark.slow
def test_all_ranks_keep_the_same_model(tmp_path):
    names = in_ranks(2, in_one_rank, tmp_path / "run")
    result = read_result(tmp_path / "run" / "result.json")
    assert names == ["stage1", "stage1"] == [result.kept_stage.name] * 2
    assert evaluate_run(tmp_path / "run", open_dataset("digits-lt"), CPU)["top1"] == result.stages[0].top1


def in_one_rank(world, path):
    recipe, folder = ruined(), RunFolder(path)
    if world.rank0:
        folder.create(recipe, "tailcloud train")
    dataset = hold_out(open_dataset(recipe.data.spec, recipe.root), recipe.selection.split)
    watcher = Watcher()
    train(recipe, dataset, folder, CPU, watcher, world)
    (note,) = [note for note in watcher.notes if "is kept" in note]
    return note.split()[3]


def test_the_last_stage_is_kept_by_default(tmp_path):
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(GOOD, RUINED, {"selection": {"split": 0.2}}), watcher)
    assert result.kept_stage is None
    assert result.top1.last == result.stages[-1].top1 < result.stages[0].top1
    assert not any("is kept" in note for note in watcher.notes)
    assert "kept_stage" not in (tmp_path / "run" / "result.json").read_text()


UNTRAINED = {"stage1": {"epochs": 1, "lr": 1e-6}}
TRAINED = {"stage2": {**GOOD["stage1"], "train": "all", "batch_norm": "moving"}}


def test_a_later_stage_that_is_better_is_kept_with_the_transform_that_corrects_it(tmp_path):
    tuned = {"stage3": {"head_transform": "tuned-logit-adjust"}}
    result = run(tmp_path / "run", small_recipe(UNTRAINED, TRAINED, tuned, BEST))
    assert result.kept_stage.name == "stage3"
    assert result.top1.last == result.stages[-1].top1
    assert "The model of stage2 is kept" in result.kept_stage.reason


def test_each_stage_is_compared_with_the_one_that_is_kept_so_far_by_the_figures_of_its_best_epoch(tmp_path):
    """The second of three is kept. The third has another kind of head, and a learning rate that ruins it."""
    scaled = {"epochs": 1, "head_transform": "lws", "lr": 1000.0, "loss": {"name": "ce", "scale": 20.0}, "batch": 64}
    selection = {"selection": {**BEST["selection"], "pick": "best", "objective": "overall"}}
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(UNTRAINED, TRAINED, {"stage3": scaled}, selection), watcher)
    kept = result.kept_stage
    assert (kept.name, kept.objective) == ("stage2", "overall")
    assert [(each.earlier, each.later) for each in kept.comparisons] == [("stage1", "stage2"), ("stage2", "stage3")]
    best = max((line for line in watcher.lines if line["stage"] == "stage2"), key=lambda line: line["val_top1"])
    for compared, figures in zip(kept.comparisons, ("after", "before"), strict=True):
        assert getattr(compared.objective, figures) == pytest.approx(best["val_top1"])
        assert compared.objective == compared.top1
    assert result.picked.epoch == best["epoch"]
    assert evaluate_run(tmp_path / "run", open_dataset("digits-lt"), CPU)["top1"] == result.picked.top1


def test_a_stage_that_only_transforms_the_head_can_be_kept_and_made_again(tmp_path):
    """The second stage has no checkpoint: it is the transform of the first one's."""
    third = {"stage3": {"epochs": 1, "head_transform": "fresh", "lr": 1e-6, "loss": "ce", "batch": 64}}
    kept = {"stage2": {"epochs": 0, "head_transform": "tau-norm", "loss": "ce"}}
    start = {"stage1": {"epochs": 1, "lr": 0.05, "batch": 16, "warmup": 0}}
    recipe = load_recipe("digits-lt/ce", [{"method": "tau-norm", "model": {"width": 0.25}}, start, kept, third, BEST])
    result = run(tmp_path / "run", recipe)
    assert result.kept_stage.name in {"stage1", "stage2"}
    stage = next(stage for stage in result.stages if stage.name == result.kept_stage.name)
    assert evaluate_run(tmp_path / "run", open_dataset("digits-lt"), CPU)["top1"] == stage.top1


def test_a_transform_that_is_fitted_on_held_out_images_is_not_compared_on_them():
    counts = [30, 10, 3]
    tuned = {"stage3": {"head_transform": "tuned-logit-adjust"}}
    assert compared_stages(small_recipe(tuned), counts) == {"stage1": "stage1", "stage2": "stage3"}
    assert compared_stages(small_recipe(), counts) == {"stage1": "stage1", "stage2": "stage2"}
    nothing = {"stage3": {"head_transform": "keep"}}
    assert compared_stages(small_recipe(nothing), counts) == {"stage1": "stage1", "stage2": "stage3"}
    trained = small_recipe({"stage2": {**tuned["stage3"], "train": "head"}})
    assert compared_stages(trained, counts) == {"stage1": "stage1", "stage2": "stage2"}
    alone = small_recipe({"stage3": tuned["stage3"]}, name="digits-lt/ce")
    assert compared_stages(alone, counts) == {"stage1": "stage3"}


def test_a_head_that_was_never_trained_is_not_compared():
    recipe = load_recipe("digits-lt/ncm", [{"stage1": {"epochs": 0}}])
    assert compared_stages(recipe, [30, 10, 3]) == {}


@pytest.mark.parametrize(
    ("points", "top1", "worse"),
    [
        (5.0, -20.0, False),  # a rise beyond the error may cost top-1
        (3.0, -20.0, True),  # a rise within the error may not
        (-0.5, -17.0, True),  # top-1 44.5 to 27.5, balanced accuracy 25.4 to 24.9
        (3.0, -4.0, False),  # top-1 falls within chance
        (3.0, -1.0, False),  # no difference beyond chance: the later one
        (-3.0, -1.0, False),
        (-5.0, 0.0, True),  # a fall beyond the error
        (-5.0, 20.0, True),
    ],
)
def test_a_stage_that_costs_accuracy_without_a_rise_is_worse(points, top1, worse):
    change, overall = PairedDifference(40.0, 40.0 + points, 4.0), PairedDifference(50.0, 50.0 + top1, 3.0)
    assert is_worse(change, overall) is worse


def test_hits_survive_their_packing():
    hits = np.random.default_rng(0).random(37) < 0.5
    target = np.arange(37)

    class Given:
        predicted = np.where(hits, target, target + 1)

    Given.target = target
    assert np.array_equal(unpack_hits(pack_hits(Given), 37), hits)


def test_a_lost_checkpoint_is_named(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", ruined(), StopAfter(7))
    (tmp_path / "run" / "checkpoint" / "stage1-0000006.safetensors").write_bytes(b"damaged")
    with pytest.raises(TailcloudError, match=r"stage1 is the one to keep.*is missing or damaged; restore it"):
        run(tmp_path / "run", ruined())


def test_without_held_out_images_the_rule_is_refused():
    with pytest.raises(UsageError, match=r"selection.stage.*needs held-out images, and digits-lt has none; add --set"):
        open_data(load_recipe("digits-lt/gcl", [{"selection": {"stage": "best"}}]))


def test_few_without_a_held_out_image_is_refused_before_training():
    selection = {"split": 0.1, "stage": "best", "objective": "few"}
    open_data(load_recipe("digits-lt/gcl", [{"selection": selection}]))
    with pytest.raises(UsageError, match="use --objective balanced"):
        open_data(load_recipe("digits-lt/gcl", [{"data": "digits-lt:2", "selection": selection}]))


@pytest.mark.parametrize(("objective", "figure"), [("balanced", "val_balanced_accuracy"), ("overall", "val_top1")])
def test_the_best_epoch_is_that_of_the_objective(tmp_path, objective, figure):
    selection = {"split": 0.2, "pick": "best", "objective": objective}
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe({"selection": selection}, GOOD, {"stage2": {"epochs": 3}}), watcher)
    second = [line for line in watcher.lines if line["stage"] == "stage2"]
    assert result.picked.epoch == max(second, key=lambda line: line[figure])["epoch"]
