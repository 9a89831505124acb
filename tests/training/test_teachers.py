"""Runs that learn from other runs: same bits after a break and in a fleet, refusals, remarks, and what is recorded."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tailcloud
from helpers.ranks import in_ranks
from helpers.runs import Interrupted, StopAfter, Watcher, losses_of, run, same_weights, small_recipe
from tailcloud.calibration.priors import normalised
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.launch.run_plan import TrainRequest, plan_runs
from tailcloud.objectives import OBJECTIVES, Classify
from tailcloud.recipe import load_recipe
from tailcloud.reporting.card import model_card
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_comparison import mean_prior
from tailcloud.runs.model_file import read_model_file
from tailcloud.runs.trained_model import weights_digest
from tailcloud.training import loop
from tailcloud.training.teachers import check_digests, check_teacher, load_teachers, prior_remarks

DIGITS = "digits-lt"


def invoke(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def refusal(*words):
    """The sentence with which a command ends."""
    error = invoke(*words).exception
    assert isinstance(error, TailcloudError)
    return str(error)


@pytest.fixture(scope="module")
def teachers(tmp_path_factory, finished_run):
    """Two runs: GCL, and cross-entropy with another network."""
    other = tmp_path_factory.mktemp("teachers") / "ce"
    run(other, small_recipe({"model": {"backbone": "resnet8", "width": 0.5}}, name="digits-lt/ce"))
    return [finished_run, other]


def distilled(teachers, *settings, name="digits-lt/gcl"):
    return small_recipe({"distill": {"teachers": list(map(str, teachers))}}, *settings, name=name)


def digest(folder):
    return weights_digest(RunFolder(folder))


@pytest.fixture(scope="module")
def student(tmp_path_factory, teachers):
    """A finished run that learned from both."""
    folder = tmp_path_factory.mktemp("student") / "run"
    run(folder, distilled(teachers))
    return folder


@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_a_run_that_was_broken_off_ends_with_the_same_bits(tmp_path, teachers, student, epochs):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", distilled(teachers), StopAfter(epochs))
    run(tmp_path / "run", distilled(teachers))
    assert same_weights(tmp_path / "run", student)


def test_teachers_change_what_is_learned_and_are_not_saved_with_it(finished_run, student):
    assert not same_weights(finished_run, student)
    assert tailcloud.load(student).state_dict().keys() == tailcloud.load(finished_run).state_dict().keys()


def test_a_student_comes_closer_to_its_teacher(tmp_path, finished_run):
    images = torch.from_numpy(open_dataset(DIGITS).test.images)
    logits = {}
    for weight in (0.001, 1.0):
        stages = {
            "seed": 5,
            "stage2": {"epochs": 0},
            "distill": {"weight": weight},
            "stage1": {"epochs": 8, "lr": 0.02},
        }
        run(tmp_path / str(weight), distilled([finished_run], stages))
        logits[weight] = tailcloud.load(tmp_path / str(weight)).predict_proba(images).log()
    wanted = tailcloud.load(finished_run).predict_proba(images)
    far, near = ((wanted * (wanted.log() - logits[weight])).sum(dim=1).mean() for weight in (0.001, 1.0))
    assert near < far


def test_the_mean_of_logits_is_that_of_the_loaded_models(teachers):
    dataset = open_dataset(DIGITS)
    both = load_teachers(distilled(teachers).distill, dataset)
    models = [tailcloud.load(folder) for folder in teachers]
    images = models[0].transform(torch.from_numpy(dataset.test.images[:9]))
    expected = torch.stack([model(images) for model in models]).mean(dim=0)
    torch.testing.assert_close(both(images), expected)
    both.train()
    before = {name: value.clone() for name, value in both.state_dict().items()}
    assert not both(images).requires_grad
    assert all(torch.equal(value, before[name]) for name, value in both.state_dict().items())


def test_a_fleet_of_two_ends_with_the_bits_of_each_run_alone(tmp_path, teachers):
    words = ["train", "digits-lt/gcl", "--device", "cpu", "--set", "model.width=0.25", "--set", "stage1.epochs=2"]
    words += ["--set", "stage2.epochs=1", "--set", "engine.threads=1"]
    words += [word for teacher in teachers for word in ("--teacher", teacher)]
    assert invoke(*words, "--seed", 1, "--out", tmp_path / "alone").exit_code == 0
    assert invoke(*words, "--seed", 0, "--seed", 1, "--out", tmp_path / "fleet").exit_code == 0
    assert same_weights(tmp_path / "alone", tmp_path / "fleet" / "seed1")


def test_a_run_records_its_teachers_and_their_digests(tmp_path, teachers):
    out = tmp_path / "run"
    settings = {"model.width": 0.25, "stage1.epochs": 1, "stage2.epochs": 1}
    made = tailcloud.train("digits-lt/gcl", teachers=teachers, settings=settings, out=out, device="cpu")
    expected = [(str(folder), digest(folder)) for folder in teachers]
    assert [(teacher.run, teacher.sha256) for teacher in made.result.model.teachers] == expected
    recipe = RunFolder(out).recipe()
    assert recipe.distill.teachers == [str(folder) for folder in teachers]
    assert recipe.distill.sha256 == [digest(folder) for folder in teachers]
    assert all(f"--teacher {folder}" in RunFolder(out).command() for folder in teachers)
    assert "sha256" not in json.dumps(recipe.substance())
    card = model_card(out)
    assert all(digest(folder) in card for folder in teachers)
    assert "distilled from 2" in (out / "report.html").read_text()


@pytest.fixture
def started(tmp_path, finished_run):
    """A teacher of its own, and a run with it that was broken off in its first stage; the words that started it."""
    teacher, out = tmp_path / "teacher", tmp_path / "run"
    shutil.copytree(finished_run, teacher)
    settings = {"model.width": 0.25, "stage1.epochs": 3, "stage2.epochs": 1, "engine.checkpoint_seconds": 0.0}
    with pytest.raises(Interrupted):
        tailcloud.train(
            "digits-lt/gcl", teachers=[teacher], settings=settings, out=out, device="cpu", observer=StopAfter(1)
        )
    return teacher, out


def test_a_teacher_that_is_gone_is_one_sentence_on_resume(started):
    teacher, out = started
    shutil.rmtree(teacher)
    said = refusal("train", "--resume", "--out", out)
    assert said.startswith(f"the teacher {teacher} holds no trained model: the folder does not exist")


def test_a_teacher_that_was_trained_again_is_one_sentence_on_resume(started, teachers):
    teacher, out = started
    shutil.rmtree(teacher)
    shutil.copytree(teachers[1], teacher)
    said = refusal("train", "--resume", "--out", out)
    assert f"the teacher {teacher} is not the one that this recipe records" in said
    assert "restore it, or start a new run" in said


def test_a_first_stage_that_is_done_needs_no_teacher_any_more(tmp_path, started):
    teacher, out = started
    with pytest.raises(Interrupted):
        tailcloud.train(out=out, resume=True, observer=StopAfter(2))
    shutil.rmtree(teacher)
    assert tailcloud.train(out=out, resume=True).result.model.teachers[0].run == str(teacher)
    result = invoke("rebalance", out, "--with", "crt", "--out", tmp_path / "crt", "--set", "stage2.epochs=1")
    assert result.exit_code == 0, result.output


def test_resuming_with_other_teachers_is_refused(started, teachers):
    _, out = started
    said = refusal("train", "--resume", "--out", out, "--teacher", teachers[1])
    assert "was started with distill.teachers" in said


def test_other_teachers_replace_those_of_a_run_and_their_digests(tmp_path, started, teachers):
    _, out = started
    request = TrainRequest(like=out, teachers=[teachers[1]], out=tmp_path / "new", device="cpu")
    (planned,) = plan_runs(request)
    assert planned.recipe.distill.teachers == [str(teachers[1])]
    assert planned.recipe.distill.sha256 == []


def test_a_missing_teacher_is_refused_before_anything_is_written(tmp_path):
    said = refusal("train", "digits-lt/gcl", "--teacher", tmp_path / "nowhere", "--out", tmp_path / "run")
    assert "nowhere holds no trained model: the folder does not exist" in said
    assert not (tmp_path / "run").exists()


def test_a_teacher_that_would_count_twice_is_refused_before_anything_is_written(tmp_path, teachers):
    shutil.copytree(teachers[0], tmp_path / "copy")
    names = ("--teacher", teachers[0], "--teacher", teachers[1], "--teacher")
    said = refusal("train", "digits-lt/gcl", *names, teachers[0], "--out", tmp_path / "run")
    assert "is given twice, and would count twice; give every teacher once" in said
    said = refusal("train", "digits-lt/gcl", *names, tmp_path / "copy", "--out", tmp_path / "run")
    assert f"copy has the weights of {teachers[0]}" in said
    assert not (tmp_path / "run").exists()


def test_a_path_in_the_place_of_a_list_of_teachers_is_a_sentence(finished_run):
    with pytest.raises(UsageError, match=r'teachers = ".*" should be a list of run folders; write \["'):
        tailcloud.train("digits-lt/gcl", teachers=str(finished_run))


def test_a_teacher_of_other_data_is_refused_before_anything_is_written(tmp_path, teachers):
    other = tmp_path / "teacher"
    shutil.copytree(teachers[0], other)
    about = json.loads((other / "model.json").read_text())
    about["class_names"] = about["class_names"][::-1]
    (other / "model.json").write_text(json.dumps(about))
    said = refusal("train", "digits-lt/gcl", "--teacher", other, "--out", tmp_path / "run", "--device", "cpu")
    assert "has the same classes as this run in another order" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"class_names": tuple("abcdefghij")}, 'has other classes than this run: number 1 is "0", not "a"'),
        ({"mean": (0.5,)}, "normalises images by mean"),
        ({"std": (0.5,)}, "normalises images by mean"),
    ],
)
def test_what_does_not_fit_is_named(finished_run, change, sentence):
    teacher, dataset = read_model_file(finished_run / "model.json"), open_dataset(DIGITS)
    check_teacher(finished_run, teacher, dataset)
    with pytest.raises(UsageError, match=sentence):
        check_teacher(finished_run, teacher, replace(dataset, **change))


def test_fewer_classes_and_another_image_size_are_named(finished_run):
    teacher, dataset = read_model_file(finished_run / "model.json"), open_dataset(DIGITS)
    fewer = teacher.model_copy(update={"class_names": teacher.class_names[:3]})
    with pytest.raises(UsageError, match="has 3 classes, and this run has 10"):
        check_teacher(finished_run, fewer, dataset)
    larger = teacher.model_copy(update={"transform": teacher.transform.model_copy(update={"size": (9, 8)})})
    with pytest.raises(UsageError, match=r"sees images of 9 × 8 × 1 .* this run has 8 × 8 × 1"):
        check_teacher(finished_run, larger, dataset)


def test_digests_of_a_recipe_are_checked(finished_run):
    right = distilled([finished_run], {"distill": {"sha256": [digest(finished_run)]}}).distill
    assert check_digests(right) == [digest(finished_run)]
    with pytest.raises(TailcloudError, match="is not the one that this recipe records"):
        check_digests(right.model_copy(update={"sha256": ["0" * 64]}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"distill": {"weight": 1.0}}, "distill.teachers is missing"),
        ({"distill": {"teachers": []}}, "distill.teachers"),
        ({"distill": {"teachers": ["a"], "temperature": 0.0}}, "distill.temperature = 0.0"),
        ({"distill": {"teachers": ["a"], "tau": 2}}, "distill.tau"),
        ({"distill": {"teachers": ["a"], "sha256": ["0" * 64] * 2}}, "distill.sha256 has 2 digests for 1 teachers"),
        ({"distill": {"teachers": ["a"]}, "stage1": {"epochs": 0}}, "needs a first stage that trains on images"),
        (
            {"distill": {"teachers": ["a"]}, "stage1": {"views": 2, "train": "head"}},
            "needs a first stage that trains on images, and stage1.views = 2",
        ),
    ],
)
def test_a_wrong_table_is_refused_when_the_recipe_is_read(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe("digits-lt/gcl", [settings])


def test_an_objective_that_computes_its_loss_elsewhere_is_refused(monkeypatch):
    """Teachers call ``with_outputs``, so a ``forward`` of its own would be left out without a word."""

    class Shifted(Classify):
        def forward(self, network, batch, noise):
            return super().forward(network, batch, noise) + 100

    monkeypatch.setitem(OBJECTIVES, "shifted", Shifted)
    settings = {"stage1": {"objective": "shifted"}, "distill": {"teachers": ["a"]}}
    with pytest.raises(UsageError, match=r'not with "shifted"'):
        load_recipe("digits-lt/ce", [settings])


@pytest.mark.parametrize("method", ["bbn", "hybrid-sc", "hybrid-psc"])
def test_objectives_without_outputs_for_the_batch_are_refused(method):
    with pytest.raises(
        UsageError, match=r'works with stage1.objective = "classify" or .* or "bcl" or "proco", not with'
    ):
        load_recipe(f"digits-lt/{method}", [{"distill": {"teachers": ["a"]}}])


def test_a_recipe_is_not_chosen_for_a_run_with_teachers(tmp_path, finished_run):
    said = refusal("train", "--time-budget", "1m", "--teacher", finished_run, "--out", tmp_path / "run")
    assert "no recipe is chosen for a run with teachers" in said


def test_a_teacher_of_other_data_is_a_remark(tmp_path, teachers):
    other = tmp_path / "teacher"
    shutil.copytree(teachers[0], other)
    result = json.loads((other / "result.json").read_text())
    result["dataset"]["fingerprint"] = "0123456789abcdef"
    (other / "result.json").write_text(json.dumps(result))
    watcher = Watcher()
    made = run(tmp_path / "run", distilled([other]), watcher)
    remark = f"stage1: The teacher {other} was trained on other data (digits-lt, fingerprint 0123456789abcdef"
    assert any(note.startswith(remark) for note in watcher.notes)
    assert any(note.startswith(remark) for note in made.remarks)
    watcher = Watcher()
    run(tmp_path / "same", distilled(teachers[:1]), watcher)
    assert watcher.notes == []


def test_a_model_without_a_result_is_a_remark(tmp_path, teachers):
    other = tmp_path / "teacher"
    shutil.copytree(teachers[0], other)
    (other / "result.json").unlink()
    found = load_teachers(distilled([other]).distill, open_dataset(DIGITS))
    assert found.remarks == [f"The teacher {other} does not say which data it was trained on."]


def test_the_prior_of_mean_logits_is_the_geometric_mean(teachers):
    files = [read_model_file(folder / "model.json") for folder in teachers]
    logs = [np.log(np.array(file.prior) / sum(file.prior)) for file in files]
    assert mean_prior(files) == pytest.approx(normalised(np.exp((logs[0] + logs[1]) / 2)))
    unknown = files[1].model_copy(update={"prior": None})
    assert mean_prior([files[0], unknown]) is None


def test_teachers_that_assume_other_class_frequencies_are_a_remark(tmp_path, teachers):
    found = load_teachers(distilled(teachers[1:]).distill, open_dataset(DIGITS))  # cross-entropy: as in training
    assert prior_remarks(found, np.full(10, 0.1)) != []
    assert prior_remarks(found, found.prior) == []
    watcher = Watcher()
    run(tmp_path / "ce", distilled(teachers[:1], name="digits-lt/ce"), watcher)
    assert any("imply other class frequencies than the loss" in note for note in watcher.notes)


def test_micro_batches_learn_from_teachers_as_whole_batches_do(tmp_path, teachers):
    settings = {"stage1": {"batch_norm": "frozen", "epochs": 2}, "stage2": {"epochs": 0}}
    losses = []
    for accumulate in (1, 3):
        watcher = Watcher()
        recipe = distilled(teachers, settings, {"engine": {"accumulate": accumulate}})
        run(tmp_path / str(accumulate), recipe, watcher)
        losses.append([line["loss"] for line in watcher.lines])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def rank_losses(world, folder, recipe):
    dataset, watcher = open_dataset(recipe.data.spec), Watcher()
    loop.train(recipe, dataset, RunFolder(folder), torch.device("cpu"), watcher, world)
    return [line["loss"] for line in watcher.lines]


@pytest.mark.slow
def test_two_ranks_learn_from_teachers_as_one_does(tmp_path, teachers):
    settings = {"stage1": {"batch_norm": "frozen", "epochs": 2}, "stage2": {"epochs": 0}}
    recipe, watcher = distilled(teachers, settings), Watcher()
    run(tmp_path / "one", recipe, watcher)
    RunFolder(tmp_path / "two").create(recipe, "tailcloud train")
    shared = in_ranks(2, rank_losses, tmp_path / "two", recipe)
    assert shared[0] == pytest.approx([line["loss"] for line in watcher.lines], rel=1e-3)


@pytest.mark.slow
def test_compiled_steps_learn_from_teachers_as_eager_ones_do(check_compiled, teachers):
    check_compiled(lambda engine: distilled(teachers, {"stage1": {"batch": 400}, "stage2": {"batch": 400}, **engine}))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kernels", ["plain", "auto"])
def test_a_graph_learns_from_teachers_as_eager_steps_do(tmp_path, teachers, kernels):
    losses = []
    for executor in ("eager", "graphed"):
        recipe = distilled(teachers, {"engine": {"executor": executor, "kernels": kernels}})
        losses.append(losses_of(tmp_path / executor, recipe, "cuda"))
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
