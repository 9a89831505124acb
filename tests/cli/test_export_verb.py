"""``tailcloud export``, as people type it."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from helpers.command_line import printed
from tailcloud.cli import app


@pytest.fixture
def run(finished_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(finished_run, tmp_path / "run")


def call(*words):
    return " ".join(printed(["export", *words]).split())


def test_an_export_says_what_it_checked_and_what_it_wrote(run):
    said = call("run", "--to", "pt2")
    assert "on 256 test images of digits-lt: the largest difference of a probability is" in said
    assert "model: run/model.pt2" in said
    assert "uint8 [batch, 8, 8, 1] in, 10 probabilities out" in said
    assert "card: run/model-card.md" in said
    assert "Model card: gcl on digits-lt" in (run / "model-card.md").read_text()


def test_without_its_data_random_images_do_and_it_is_said(run):
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("digits-lt", "cifar10-lt:100"))
    said = call("run", "--to", "safetensors")
    assert "note: The test images of the run cannot be used for the check: cifar10-lt:100 needs CIFAR-10" in said
    assert "on 256 random images" in said


def test_a_card_that_was_completed_is_left_alone(run):
    (run / "model-card.md").write_text("completed by hand")
    assert "was not changed" in call("run", "--to", "safetensors", "--force")
    assert (run / "model-card.md").read_text() == "completed by hand"
    call("run", "--to", "card", "--force")
    assert "Model card" in (run / "model-card.md").read_text()


def test_a_damaged_result_stops_before_anything_is_written(run):
    (run / "result.json").write_text(json.dumps({"format": 1, "method": "gcl"}))
    before = sorted(run.iterdir())
    assert CliRunner().invoke(app, ["export", "run", "--to", "safetensors"]).exit_code != 0
    assert sorted(run.iterdir()) == before


def test_a_model_without_a_result_is_exported_without_a_card(run):
    (run / "result.json").unlink()
    assert "card:" not in call("run", "--to", "safetensors", "--out", "m.safetensors")
