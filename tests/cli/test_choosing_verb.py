"""``tailcloud train`` without a recipe."""

import re
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.bad_inputs import command
from tailcloud.auto_recipe.timing import StepTiming
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.launch import execute


@pytest.fixture
def images(tmp_path, monkeypatch):
    """The digits as a file of one's own, on a machine whose speed is known."""
    monkeypatch.chdir(tmp_path)
    digits = open_dataset("digits-lt")
    parts = {"x_train": digits.train.images, "y_train": digits.train.labels}
    np.savez(tmp_path / "mine.npz", x_test=digits.test.images, y_test=digits.test.labels, **parts)
    monkeypatch.setattr(
        "tailcloud.auto_recipe.time_budget.time_recipe",
        lambda *_: StepTiming({"stage1": 1e-3, "stage2": 1e-3}, 1e-6, 0.0),
    )


def said(words):
    result = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    return result.output


def test_a_choice_is_shown_and_nothing_is_trained(images, tmp_path):
    text = said("train --data mine.npz --dry-run")
    assert text.index("timing a few steps") < text.index("Chosen for mine.npz")
    assert "Images are not flipped" in text
    assert "200 epochs" in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["mine [old].npz", "mine[/bold].npz"])
def test_brackets_in_a_path_are_no_markup(name, images, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / "mine.npz").rename(tmp_path / name)
    short = ["--set", "model.width=0.25", "--set", "stage1.epochs=1", "--set", "stage2.epochs=0"]
    words = ["train", "--data", name, "--out", "run", *short]
    planned = CliRunner().invoke(app, [*words, "--dry-run"], catch_exceptions=False).output
    assert f"Chosen for {name}" in planned
    assert f"gcl on {name}" in planned
    trained = CliRunner().invoke(app, words, catch_exceptions=False).output
    assert f"{name} gcl seed 0 stage1 epoch 1/1" in trained


def test_settings_win_over_the_choice(images):
    text = said("train --data mine.npz --dry-run --set stage1.epochs=3 --set model.backbone=resnet20")
    assert "model    resnet20" in text
    assert "stage1   3 epochs" in text


def test_a_recipe_is_taken_as_it_is(images):
    assert "Chosen" not in said("train own/gcl --data mine.npz --dry-run")
    assert "Chosen" not in said("train --data digits-lt --dry-run")
    assert "Chosen" in said("train --data digits-lt --dry-run --time-budget 1m")


def test_several_runs_share_a_budget(images):
    alone = said("train --data mine.npz --dry-run --time-budget 40s")
    shared = said("train --data mine.npz --dry-run --time-budget 80s --seed 0 --seed 1")
    few, many = (int(re.search(r"stage1 +(\d+) epochs", text).group(1)) for text in (alone, shared))
    assert few == pytest.approx(many, abs=5)  # a little of each budget is spent before


def test_a_run_is_trained_recorded_and_resumed_without_choosing_again(images, tmp_path):
    short = "--set model.width=0.25 --set stage1.epochs=2 --set stage2.epochs=1"
    assert command(f"train --data mine.npz --time-budget 1m {short}")[0] == 0
    recipe = tomllib.loads((tmp_path / "runs/mine-gcl-seed0/recipe.toml").read_text())
    assert recipe["data"]["size"] == 8
    assert (recipe["augment"]["crop_padding"], recipe["augment"]["flip"]) == (1, False)
    assert "--time-budget 1m" in (tmp_path / "runs/mine-gcl-seed0/recipe.toml").read_text()
    (tmp_path / "runs/mine-gcl-seed0/result.json").unlink()
    code, text = command(f"train --data mine.npz --resume {short}")
    assert (code, "Chosen" in text) == (0, False)
    assert command("train runs/mine-gcl-seed0/recipe.toml --out again")[0] == 0
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("runs/mine-gcl-seed0", "again")]
    assert weights[0] == weights[1]


def test_the_folder_is_named_after_the_method_that_is_chosen(images, tmp_path, monkeypatch):
    assert "seed 0 in runs/mine-gcl-seed0" in said("train --data mine.npz --time-budget 40s --dry-run")
    monkeypatch.setattr("tailcloud.auto_recipe.choice.NOMINAL_CORE", 1e7)
    text = said("train --data mine.npz --time-budget 40s --dry-run")
    assert "Logit-adjusted cross-entropy instead of GCL" in text
    assert "seed 0 in runs/mine-logit-adjust-posthoc-seed0" in text


def test_the_same_command_again_trains_a_new_run_beside_the_first(images, tmp_path):
    """After photographs were added. The time that choosing takes is not lost on a name."""
    words = "train --data mine.npz --time-budget 1m --set model.width=0.25 --set stage1.epochs=1 --set stage2.epochs=1"
    assert command(words)[0] == 0
    before = (tmp_path / "runs/mine-gcl-seed0/result.json").read_bytes()
    code, text = command(words)
    assert code == 0
    assert "runs/mine-gcl-seed0 has a run already; this one is in mine-gcl-seed0-2" in " ".join(text.split())
    assert (tmp_path / "runs/mine-gcl-seed0-2/result.json").exists()
    command(f"{words} --seed 0 --seed 1")
    command(f"{words} --seed 0 --seed 1")
    assert {path.parent.name for path in (tmp_path / "runs").glob("*/seed1")} == {"mine-gcl", "mine-gcl-2"}
    assert (tmp_path / "runs/mine-gcl-seed0/result.json").read_bytes() == before
    code, text = command(f"{words} --out runs/mine-gcl-seed0")
    assert (code, "already holds a run" in text) == (1, True)


def test_what_is_said_to_go_on_with_several_chosen_runs_finds_them(images, monkeypatch):
    words = "train --data mine.npz --time-budget 80s --seed 0 --seed 1"
    started = []

    def stopped(jobs, *_):
        run = jobs[0].args[0]
        run.folder.create(run.recipe, run.command)
        started.append(run.folder.path)
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "run_jobs", stopped)
    _, complaint = command(words)
    again = re.search(r'with "tailcloud ([^"]*)"', complaint).group(1)
    text = said(f"{again} --dry-run")
    assert "Chosen" not in text
    assert f"seed 0 in {started[0]}" in text
    assert f"seed 1 in {started[0].with_name('seed1')}" in text
