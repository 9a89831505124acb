"""model.json: one schema writes and reads it; the file may come from a stranger, and can only be refused."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import tailcloud
from tailcloud.errors import TailcloudError
from tailcloud.runs import model_file
from tailcloud.runs.model_file import ModelFile, read_model_file, write_model_file


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


@st.composite
def contents(draw):
    classes, channels = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    positive = st.floats(1e-6, 1e6)

    def per(size, each):
        return st.lists(each, min_size=size, max_size=size)

    side = st.integers(1, 4096)
    transform = {"size": st.tuples(side, side), "mean": per(channels, st.floats(-1, 1)), "std": per(channels, positive)}
    resizing = {"fit": st.sampled_from(["crop", "pad", "squash"]), "keep": st.floats(0.1, 1)}
    calibration = {"temperature": positive, "fitted_on": st.none() | text}
    adapter = {"adapter": st.sampled_from(["none", "lora", "adaptformer"]), "adapter_size": st.integers(0, 64)}
    architecture = {"backbone": text, "head": text, "width": positive}
    required = {
        "architecture": st.fixed_dictionaries(
            {**architecture, "channels": st.just(channels), "classes": st.just(classes), **adapter}
        ),
        "class_names": per(classes, text),
        "counts": per(classes, st.integers(0, 2**50)),
        "transform": st.fixed_dictionaries(transform, optional=resizing),
        "calibration": st.fixed_dictionaries({"scale": positive}, optional=calibration),
    }
    return draw(st.fixed_dictionaries(required, optional={"prior": per(classes, st.floats(1e-9, 1))}))


@given(contents())
def test_what_was_written_is_read_and_written_to_the_same_bytes(tmp_path_factory, content):
    first, second = (tmp_path_factory.mktemp("model") / name for name in ("first.json", "second.json"))
    made = ModelFile.create(content)
    assert made.content() == content
    write_model_file(first, made)
    write_model_file(second, read_model_file(first))
    assert first.read_bytes() == second.read_bytes()
    assert read_model_file(first) == made


def test_the_model_json_of_a_run_is_written_to_the_same_bytes(folder):
    before = (folder / "model.json").read_bytes()
    write_model_file(folder / "model.json", read_model_file(folder / "model.json"))
    assert (folder / "model.json").read_bytes() == before
    assert list(json.loads(before)["transform"]) == ["size", "mean", "std", "fit", "keep"]


@pytest.mark.parametrize("wrong", [{"temperatur": 2.0}, {"temperature": float("nan")}, {"scale": None}], ids=str)
def test_a_model_file_with_a_wrong_field_cannot_be_made(folder, wrong):
    content = {key: value for key, value in json.loads((folder / "model.json").read_text()).items() if key != "format"}
    ModelFile.create(content)
    content["calibration"] |= wrong
    with pytest.raises(ValidationError):
        ModelFile.create(content)
