"""A folder of images of one's own through the command line: trained, measured, resumed, refused when it changed."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from helpers.bad_inputs import command

QUICK = "--set stage1.epochs=1 --set model.width=0.25 --set data.size=16"


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """A folder ``digits`` of PNG files, 30 of class 0 down to 4 of class 4."""
    monkeypatch.chdir(tmp_path)
    bunch = load_digits()
    for c, count in enumerate([30, 20, 10, 5, 4]):
        Path("digits", f"digit {c}").mkdir(parents=True)
        for number in np.flatnonzero(bunch.target == c)[:count]:
            image = Image.fromarray((bunch.images[number] * 15).astype(np.uint8))
            image.resize((20, 24)).save(f"digits/digit {c}/{number}.png")
    return Path("digits")


@pytest.fixture
def run(digits):
    code, said = command(f"train own/ce --data digits --out run {QUICK}")
    assert code == 0, said
    assert "20 % of each class" in said
    return Path("run")


def test_a_folder_is_trained_on_at_the_size_that_was_asked_for(run):
    model, result = (json.loads((run / name).read_text()) for name in ("model.json", "result.json"))
    assert model["transform"]["size"] == [16, 16]
    assert model["transform"]["fit"] == "crop"
    assert model["class_names"] == [f"digit {c}" for c in range(5)]
    assert result["dataset"]["spec"] == "digits"
    assert sum(model["counts"]) == 49  # of 69 images, 14 are for testing and 6 for validation
    assert sorted(place.name for place in Path.cwd().iterdir()) == ["digits", "run"]


def test_the_run_knows_its_data(run):
    code, said = command("evaluate run")
    assert code == 0, said


def test_a_folder_that_changed_is_not_resumed(run, digits):
    (run / "result.json").unlink()
    Image.new("L", (20, 24)).save(digits / "digit 0" / "new.png")
    code, said = command("train --resume --out run")
    assert code != 0
    assert "digits is not the data this run was started on" in said


def test_long_readings_are_told(digits, monkeypatch):
    monkeypatch.setattr("tailcloud.data.parallel_io.SECONDS_BETWEEN_NOTES", 0.0)
    assert "note: 69 of 69 images read …" in command("inspect digits")[1]
