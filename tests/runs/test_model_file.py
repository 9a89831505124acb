"""model.json may come from a stranger: it can be refused, and nothing else."""

import json
import shutil

import pytest

import tailcloud
from tailcloud.errors import TailcloudError
from tailcloud.runs import model_file


@pytest.fixture
def folder(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def change(folder, **changes):
    file = folder / "model.json"
    content = json.loads(file.read_text())
    for key, value in changes.items():
        table, _, field = key.partition("__")
        if field:
            content[table][field] = value
        else:
            content[table] = value
    file.write_text(json.dumps(content))


def test_an_older_model_without_temperature_and_prior_loads(folder):
    change(folder, calibration={"scale": 20.0}, prior=None)
    model = tailcloud.load(folder)
    assert (model.temperature, model.fitted_on, model.prior) == (1.0, None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"transform__size": [1_000_000, 1_000_000]},
        {"transform__size": [0, 8]},
        {"transform__size": "8x8"},
        {"transform__mean": []},
        {"transform__std": [0.0]},
        {"transform__fit": "__import__('os').system('touch hacked')"},
        {"class_names": ["only one"]},
        {"counts": [-1] * 10},
        {"counts": [10**400] * 10},
        {"prior": [1e308] * 10},
        {"calibration__scale": float("nan")},
        {"calibration__temperature": 0},
        {"prior": [0.0] * 10},
        {"prior": [0.5, 0.5]},
        {"architecture": {"backbone": "resnet8"}},
        {"architecture__classes": 10**15},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_by_a_sentence(folder, changes):
    change(folder, **changes)
    with pytest.raises(TailcloudError, match=r"model\.json|run"):
        tailcloud.load(folder)


def test_a_model_json_beyond_all_bounds_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(model_file, "LARGEST_FILE", 100)
    with pytest.raises(TailcloudError, match="larger than any"):
        tailcloud.load(folder)
