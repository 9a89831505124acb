"""``tailcloud predict`` and ``evaluate --prior``, as they are typed."""

import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from helpers.runs import run, small_recipe
from tailcloud.cli import app, prediction_output
from tailcloud.data import open_dataset
from tailcloud.serving.predict import FilePrediction


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """What a user has: the two files of a model, and a folder of pictures, one of them broken."""
    home = tmp_path_factory.mktemp("home")
    run(home / "trained", small_recipe({"selection": {"split": 0.1}}))
    (home / "model").mkdir()
    for name in ("model.json", "model.safetensors"):
        shutil.copy(home / "trained" / name, home / "model")
    (home / "photos").mkdir()
    for number, image in enumerate(open_dataset("digits-lt").test.images[::100]):
        Image.fromarray(image[..., 0]).save(home / "photos" / f"{number}.png")
    (home / "photos" / "broken.png").write_text("")
    return home


@pytest.fixture
def call(served, monkeypatch):
    monkeypatch.chdir(served)

    def call(*words, code=0, **options):
        result = CliRunner().invoke(app, words, **options)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


def test_csv_where_nobody_watches_and_a_row_for_what_is_broken(call):
    result = call("predict", "model", "photos", "--top", "2", code=1)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) == 6
    assert list(rows[0]) == ["file", "prediction", "class_1", "probability_1", "class_2", "probability_2", "error"]
    assert rows[0]["prediction"] == rows[0]["class_1"]
    assert rows[-1]["file"] == os.path.join("photos", "broken.png")  # noqa: PTH118
    assert rows[-1]["prediction"] == ""
    assert rows[-1]["error"]
    assert "1 of 6 files could not be read" in str(result.exception)


def test_no_cell_of_a_csv_is_a_formula():
    commands = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "a\r=1"]
    stream = io.StringIO(newline="")
    write = prediction_output.as_csv(stream, 1, 0.5)
    for command in commands:
        write(FilePrediction(Path(f"{command}.jpg"), ((command, 0.9),)))
        write(FilePrediction(Path("a.jpg"), error=command))
    write(FilePrediction(Path("a.jpg"), (("-1", 0.9),)))
    stream.seek(0)
    *rows, last = list(csv.reader(stream))[1:]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    assert [Path(row[0]) for row in rows[::2]] == [Path(f"{command}.jpg") for command in commands]
    assert last[1:3] == ["-1", "-1"]


def test_json_lines_and_an_honest_unsure(call):
    result = call("predict", "model", "photos/0.png", "photos/1.png", "--json", "--threshold", "1")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["file"] for line in lines] == ["photos/0.png", "photos/1.png"]
    for line in lines:
        assert (line["prediction"], line["unsure"], line["error"]) == (None, True, None)
        assert 0 < line["top"][0]["probability"] < 1


def test_unsure_in_csv_keeps_the_guess_beside_it(call):
    (row,) = csv.DictReader(io.StringIO(call("predict", "model", "photos/0.png", "--threshold", "1").stdout))
    assert row["prediction"] == "unsure"
    assert row["class_1"] in "0123456789"


def test_a_list_on_standard_input(call):
    result = call("predict", "model", "-", "--csv", input="photos/1.png\n\nphotos/0.png\nnowhere.png\n", code=1)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["file"] for row in rows] == ["photos/1.png", "photos/0.png", "nowhere.png"]
    assert rows[2]["error"] == "it does not exist"


def test_out_is_a_new_file_of_the_kind_that_its_name_says(call, tmp_path):
    call("predict", "model", "photos/0.png", "--out", str(tmp_path / "a.jsonl"))
    call("predict", "model", "photos/0.png", "--out", str(tmp_path / "new" / "a.csv"))
    assert json.loads((tmp_path / "a.jsonl").read_text())["file"] == "photos/0.png"
    assert (tmp_path / "new" / "a.csv").read_text().startswith("file,prediction")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.csv", "a.jsonl", "new"]


def test_a_failure_leaves_no_half_file(call, tmp_path, monkeypatch):
    monkeypatch.setattr(json, "dumps", lambda *_, **__: 1 / 0)
    call("predict", "model", "photos/0.png", "--out", str(tmp_path / "a.jsonl"), code=1)
    assert list(tmp_path.iterdir()) == []


def test_a_prior_moves_the_answers(call):
    def shares(prior):
        result = call("predict", "model", "photos/4.png", "--json", "--top", "10", "--prior", prior)
        return {entry["class"]: entry["probability"] for entry in json.loads(result.stdout)["top"]}

    uniform, train = shares("uniform"), shares("train")
    assert train["0"] > uniform["0"]
    assert train["9"] < uniform["9"]


def test_a_model_that_was_never_calibrated_says_so(call, finished_run):
    assert "not calibrated" in call("predict", str(finished_run), "photos/0.png").stderr
    assert "not calibrated" not in call("predict", "model", "photos/0.png").stderr


def test_the_table_of_a_terminal(call, monkeypatch):
    monkeypatch.setattr(sys.modules["tailcloud.cli.predict"], "on_terminal", lambda: True)
    result = call("predict", "model", "photos", "--top", "2", "--threshold", "1", code=1)
    head, first, second, *_, last = result.stdout.splitlines()
    assert head.split() == ["class", "file"]
    assert "unsure: " in first
    assert first.endswith("0.png")
    assert "photos" not in second
    assert "broken.png: " in last


def test_names_cannot_steer_a_terminal():
    assert prediction_output.printable("a\x1b]0;evil\x07\nb–ß") == r"a\x1b]0;evil\x07\x0ab–ß"


def test_evaluate_expects_a_prior_and_shows_other_mixes(call, served):
    plain, adjusted = (
        json.loads(call("evaluate", "trained", "--json", *more).stdout) for more in ((), ("--prior", "train"))
    )
    assert adjusted["many"] >= plain["many"]
    assert adjusted["top1"] != plain["top1"]
    result = json.loads((served / "trained" / "result.json").read_text())
    for name in ("forward", "uniform", "backward"):
        assert plain["priors"][name] == pytest.approx(result["priors"][name])
    assert plain["calibrated"]["ece"] == pytest.approx(result["calibrated"]["ece"])
    said = call("evaluate", "trained", "--prior", "train").stdout
    assert "adjusted to train" in said
    assert "adjusted  " in said
    weighted = adjusted["calibrated"]["weighted"]
    assert weighted["prior"] == "train"
    assert f"ece {weighted['ece']:.1f} (calibrated; classes as often as in training" in said
