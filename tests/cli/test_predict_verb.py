"""``tailcloud predict`` and ``evaluate --prior``, as they are typed."""

import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from helpers.runs import run, small_recipe
from tailcloud.cli import app, prediction_output
from tailcloud.cli.predict import predict
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError, explained
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


def test_weights_that_are_nan_are_an_error(call, served, tmp_path):
    shutil.copytree(served / "model", tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    save_file({name: tensor * float("nan") for name, tensor in weights.items()}, tmp_path / "model/model.safetensors")
    result = call("predict", str(tmp_path / "model"), "photos", "--out", str(tmp_path / "rows.jsonl"), code=1)
    assert "are NaN or infinite for all 5 images: its weights are damaged" in str(result.exception)
    assert not (tmp_path / "rows.jsonl").exists()


def test_an_image_whose_outputs_are_nan_has_an_error_instead_of_a_probability(call, monkeypatch):
    def one_infinite(classifier, images):
        return torch.tensor([[float("inf") if row == 2 else 0.0] * 10 for row in range(len(images))])

    monkeypatch.setattr("tailcloud.classifier.Classifier.forward", one_infinite)
    result = call("predict", "model", "photos", "--json", code=1)
    rows = [json.loads(line, parse_constant=pytest.fail) for line in result.stdout.splitlines()]
    assert [row["prediction"] is None for row in rows] == [False, False, True, False, False, True]
    assert rows[2]["error"] == "the outputs of the model are NaN or infinite"
    assert rows[2]["top"] == []


def test_a_file_that_appears_while_predicting_is_kept_and_so_are_the_predictions(call, served, tmp_path, monkeypatch):
    out, finish = tmp_path / "birds.csv", prediction_output.PredictionCounts.add

    def meanwhile(*arguments):
        out.write_text("of another predict")
        finish(*arguments)

    monkeypatch.setattr(prediction_output.PredictionCounts, "add", meanwhile)
    result = call("predict", "model", "photos/0.png", "--out", str(out), code=1)
    assert "birds.csv appeared in the meantime and is not overwritten; the new file is" in str(result.exception)
    assert out.read_text() == "of another predict"
    assert len((tmp_path / "birds-2.csv").read_text().splitlines()) == 2


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
    stream = io.StringIO()
    prediction_output.as_table(stream, ["cat"], 1, 0.0)(FilePrediction(Path("a\x1b]0;evil\x07\nb–ß"), (("cat", 1.0),)))
    assert stream.getvalue().splitlines()[1].endswith("a\ufffd]0;evil\ufffd\ufffdb–ß")


@pytest.mark.parametrize("kind", ["--csv", "--json"])
def test_names_that_are_not_utf8_keep_their_rows(call, served, tmp_path, kind):
    odd = tmp_path / "b\udcff.png"
    shutil.copy(served / "photos" / "0.png", odd)
    listed = b"photos/1.png\n" + os.fsencode(odd) + b"\nphotos/0.png\n"
    for words, options in ((["-"], {"input": listed}), (["photos/1.png", str(tmp_path), "photos/0.png"], {})):
        result = call("predict", "model", *words, kind, **options)
        lines = result.stdout_bytes.decode("utf-8").splitlines()[kind == "--csv" :]
        rows = [json.loads(line)["file"] if kind == "--json" else line.split(",")[0] for line in lines]
        assert rows == ["photos/1.png", str(tmp_path / "b\ufffd.png"), "photos/0.png"]
        assert result.stderr.count("1\u00a0file name is not valid UTF-8") == 1
    assert "UTF-8" not in call("predict", "model", "photos/0.png").stderr


def test_sorting_prints_counts_and_rows_only_where_asked(call, tmp_path):
    result = call("predict", "model", "photos", "--sort-into", str(tmp_path / "a"), "--threshold", "0.3", code=1)
    assert f"sorted into: {tmp_path / 'a'}" in result.stdout
    assert "1  (could not be read)" in result.stdout
    assert "predictions.csv says why" in str(result.exception)
    rows = list(csv.DictReader((tmp_path / "a" / "predictions.csv").open()))
    places = [row["destination"].partition("/")[0] for row in rows]
    assert places == [
        "" if row["error"] else row["class"] if float(row["probability"]) >= 0.3 else "unsure" for row in rows
    ]
    assert len(rows) == 6
    result = call("predict", "model", "photos", "--sort-into", str(tmp_path / "b"), "--json", "--link", code=1)
    lines = [json.loads(line)["file"] for line in result.stdout.splitlines()]
    assert (lines[0], len(lines)) == ("photos/0.png", 6)
    assert "sorted into: " in result.stderr
    assert "their rows say why" in str(result.exception)
    assert all(path.is_symlink() for path in (tmp_path / "b").rglob("*.png"))


def test_a_sorted_folder_below_the_images(call, served, tmp_path):
    shutil.copytree(served / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "broken.png").unlink()
    call("predict", "model", str(tmp_path / "photos"), "--sort-into", str(tmp_path / "photos" / "0"))
    assert len(list((tmp_path / "photos" / "0").rglob("*.png"))) == 5


def test_sorting_is_refused_before_anything_is_written(call, served, tmp_path):
    place = str(tmp_path / "a")
    for words, said in {
        ("photos", "--sort-into", "photos"): "photos is not empty",
        ("photos", "--link"): "--link needs --sort-into",
        ("photos", "--sort-into", place, "--out", "model/model.json"): "not overwritten",
        ("nowhere", "--sort-into", place): "does not exist",
        ("photos", "--sort-into", place, "--gallery", "model/model.json"): "try --gallery model/model.json.html",
    }.items():
        assert said in str(call("predict", "model", *words, code=1).exception)
    assert not (tmp_path / "a").exists()


def test_rows_may_be_written_into_the_sorted_folder(call, tmp_path):
    place = tmp_path / "a"
    call("predict", "model", "photos/0.png", "--sort-into", str(place), "--out", str(place / "rows.csv"))
    assert {"predictions.csv", "rows.csv"} < {path.name for path in place.iterdir()}


def test_a_gallery_has_the_runner_up_and_rows_as_many_classes_as_asked(call, tmp_path):
    page = tmp_path / "page.html"
    result = call("predict", "model", "photos", "--gallery", str(page), code=1)
    assert f"gallery: {page}" in result.stdout
    assert f"{page} says why" in str(result.exception)
    assert page.read_text().count("<img ") == page.read_text().count("<small>then ") == 5
    result = call("predict", "model", "photos/0.png", "--gallery", str(page), "--csv")
    assert result.stdout.splitlines()[0] == "file,prediction,class_1,probability_1,error"
    assert [len(line.split(",")) for line in result.stdout.splitlines()] == [5, 5]


@pytest.mark.parametrize("kind", ["--csv", "--json"])
def test_a_reader_that_leaves_ends_rows_but_no_sorting(served, tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(served)
    for more, code in (([], 1), (["--sort-into", str(tmp_path / "a")], 0)):
        reads, writes = os.pipe()
        os.close(reads)
        with os.fdopen(writes, "w", buffering=1) as closed, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", closed)
            with pytest.raises(SystemExit) as left:
                app(["predict", "model", "photos/[0-4].png", kind, *more])
            os.dup2(os.open(os.devnull, os.O_WRONLY), writes)
        assert left.value.code == code
    assert "rror" not in capsys.readouterr().err
    assert len((tmp_path / "a" / "predictions.csv").read_text().splitlines()) == 6


@pytest.mark.parametrize(("stream", "said"), [("stdin", '"-" reads a list'), ("stdout", "write to a file with --out")])
def test_a_closed_stream_is_named(served, monkeypatch, stream, said):
    monkeypatch.chdir(served)
    monkeypatch.setattr(sys, stream, None)
    with pytest.raises(UsageError, match=said):
        predict(Path("model"), ["-" if stream == "stdin" else "photos"])


def test_a_full_disk_behind_standard_output_is_named(served, monkeypatch):
    monkeypatch.chdir(served)
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="No space") as caught:
            predict(Path("model"), ["photos/0.png"])
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert str(explained(caught.value)) == (
        "the disk is full: standard output could not be written; free some space, then run the command again"
    )


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


def test_files_that_are_not_read_are_counted_by_suffix(call, served, tmp_path):
    shutil.copytree(served / "photos", tmp_path / "photos")
    for name in ("raw.cr2", "deeper/raw.NEF", "deeper/other.nef", ".hidden.cr2", "Thumbs.db"):
        (tmp_path / "photos" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "photos" / name).write_text("")
    said = call("predict", "model", str(tmp_path / "photos"), code=1).stderr.replace("\u00a0", " ")
    assert "note: Not read, because the suffix is not that of an image: 3 files (.nef, .cr2)." in said
    assert "Not read" not in call("predict", "model", "photos", code=1).stderr


def test_predictions_that_cannot_be_written_are_refused_before_anything_is_read(call, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode != os.W_OK)
    result = call("predict", "model", "photos", "--out", "elsewhere/p.csv", code=1)
    assert "--out elsewhere/p.csv cannot be written: you have no permission to write to" in str(result.exception)
