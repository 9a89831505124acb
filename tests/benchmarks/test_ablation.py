"""What is taken back for a comparison computes the same, only slower."""

import json

import ablation
import pytest
import torch
from ablation import HEAD_TRANSFORMS, Timer
from epoch_speed import Problem

from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def problem():
    return Problem(load_recipe("digits-lt/gcl"), open_dataset("digits-lt"), CPU, "eager", "float32")


@pytest.mark.parametrize("change", HEAD_TRANSFORMS, ids=lambda change: change.name)
def test_both_sides_of_a_comparison_compute_the_same(problem, change):
    ours, other = (Timer(problem, one, evaluation=change.evaluation) for one in (None, change))
    outputs = []
    for timer in (ours, other):
        for _ in range(2):
            timer.milliseconds()
        with timer.other(), torch.no_grad():
            timer.session.model.eval()
            outputs.append(timer.session.model(timer.batch.images))
    torch.testing.assert_close(*outputs, rtol=1e-3, atol=1e-4)


def test_every_change_has_a_figure_in_the_record(tmp_path, capsys):
    file = tmp_path / "ablation.json"
    assert ablation.main(["--seconds", "0", "--write", str(file)]) == 0
    record = json.loads(file.read_text())
    assert [change["name"] for change in record["changes"]] == [change.name for change in HEAD_TRANSFORMS]
    assert all(0 < change["problems"]["digits-lt"]["ratio"] < 100 for change in record["changes"])
    assert capsys.readouterr().out.count("digits-lt × ") == len(HEAD_TRANSFORMS)


def test_missing_data_is_a_sentence(tmp_path, capsys):
    assert ablation.main(["--root", str(tmp_path), "--write", str(tmp_path / "x.json")]) == 1
    assert "tailcloud data get cifar10" in capsys.readouterr().err
