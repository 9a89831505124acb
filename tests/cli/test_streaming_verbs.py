"""Images that stay in their files through the command line: trained, measured, asked, reported, exported, resumed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.bad_inputs import command
from helpers.runs import same_weights
from tailcloud.data import open_dataset
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.evaluate import evaluate_run

ON_FILES = "--set data.loader=stream --set data.size=16 --set engine.workers=2"
STREAMED = f"{ON_FILES} --set stage1.epochs=1 --set model.width=0.25"
CROPPED = "--set augment.crop_padding=0 --set augment.crop_area=[0.3,1.0] --set augment.color_jitter=[0.4,0.4,0.4]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder ``photos`` of JPEG files of many shapes, 40 of class a down to 8 of class c."""
    root = tmp_path_factory.mktemp("streamed")
    random = np.random.default_rng(0)
    for colour, (name, count) in enumerate({"a": 40, "b": 20, "c": 8}.items()):
        (root / "photos" / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 100, (*random.integers(18, 60, 2), 3), np.uint8)
            pixels[..., colour] += 100
            Image.fromarray(pixels).save(root / "photos" / name / f"{number}.jpg")
    return root


@pytest.fixture(scope="module")
def run(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, said = command(f"train own/gcl --data photos --out run {STREAMED} {CROPPED} --set stage2.epochs=1")
    assert code == 0, said
    return folder / "run"


@pytest.fixture(autouse=True)
def _here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_a_streamed_run_is_whole(run):
    result = json.loads((run / "result.json").read_text())
    assert 'loader = "stream"' in (run / "recipe.toml").read_text()
    assert "loader" not in result["recipe"]["data"]
    assert json.loads((run / "model.json").read_text())["transform"]["keep"] == 1.0
    assert (run / "report.html").is_file()
    assert (run / "examples.safetensors").is_file()


@pytest.mark.parametrize(
    "line",
    [
        "evaluate run",
        "predict run photos/a --out answers.csv",
        "report run",
        "export run --to safetensors",
        "train --resume --out run",
    ],
)
def test_verbs_take_a_streamed_run(run, line):
    code, said = command(line)
    assert code == 0, said
    assert "random images" not in said


def test_evaluating_again_gives_the_figures_of_the_run(run, folder):
    result = json.loads((run / "result.json").read_text())
    recipe = RunFolder(run).recipe()
    again = evaluate_run(run, open_dataset(recipe.data.spec, options=recipe.data.read_options), torch.device("cpu"))
    assert again["top1"] == result["top1"]["last"]
    assert again["calibrated"]["ece"] == pytest.approx(result["calibrated"]["ece"])


def test_both_planes_are_the_same_recipe_and_end_alike(folder):
    for name, loader in {"first": "stream", "second": "resident"}.items():
        code, said = command(f"train own/ce --data photos --out {name} {STREAMED} --set data.loader={loader}")
        assert code == 0, said
    results = [json.loads(Path(name, "result.json").read_text()) for name in ("first", "second")]
    assert results[0]["recipe"] == results[1]["recipe"]
    assert same_weights(Path("first"), Path("second"))


def test_a_choice_can_be_made_for_streamed_images(folder):
    code, said = command(f"train --data photos --out chosen --time-budget 20s --dry-run {ON_FILES}")
    assert code == 0, said


def test_graphs_are_refused_for_streamed_images(folder):
    code, said = command(f"train own/ce --data photos --out graphed {STREAMED} --set engine.kernels=fused --device cpu")
    assert code == 2
    assert "needs --device cuda" in said
