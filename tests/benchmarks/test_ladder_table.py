"""The ladder on tuning images: rows are trained once, merged into one record, and shown in the order of the ladder."""

import json

import first_step_table
import ladder
import ladder_table
import pytest

SHORT = ["--set", "stage1.epochs=1", "stage2.epochs=1", "model.width=0.25", "engine.threads=1"]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    place = tmp_path_factory.mktemp("ladder")
    written = place / "record.json"
    words = ["digits-lt", *SHORT, "--out", str(place / "runs"), "--device", "cpu", "--write", str(written)]
    ladder.main([*words, "--rows", "logit-adjust"])
    before = written.read_text()
    ladder.main([*words, "--rows", "gcl", "logit-adjust"])
    return json.loads(before), json.loads(written.read_text())


def test_runs_are_merged_and_not_trained_again(record):
    before, after = record
    assert [run["row"] for run in after["runs"]] == ["gcl", "logit-adjust"]
    assert after["runs"][1] == before["runs"][0]
    assert after["runs"][0]["changed"] == SHORT[1:]
    assert [stage["epochs"] for stage in after["runs"][0]["stages"]] == [1, 1]
    assert "tailcloud train digits-lt/gcl" in after["runs"][0]["command"]


def test_a_row_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="there is no row of the ladder"):
        ladder.main(["digits-lt", "--out", str(tmp_path), "--device", "cpu", "--rows", "gcl-emma"])


def test_a_row_whose_teacher_is_not_trained_is_a_sentence_and_no_record(tmp_path, capsys):
    written = tmp_path / "ladder.json"
    words = ["digits-lt", "--out", str(tmp_path / "runs"), "--device", "cpu", "--write", str(written)]
    ladder.main([*words, "--rows", "logit-adjust-taught"])
    said = capsys.readouterr().out
    assert "digits-lt logit-adjust-taught seed 0: the teacher" in said
    assert "holds no trained model" in said
    assert json.loads(written.read_text())["runs"] == []


def test_rows_with_teachers_are_trained_only_if_they_are_named(tmp_path):
    options = ladder.arguments(["cifar100-lt-tune:100", "--out", str(tmp_path), "--device", "cpu"])
    assert not [run for run, _ in ladder.planned(options) if run.row.teacher]
    options.rows = ["bcl-taught", "gcl"]
    assert [run.row.key for run, _ in ladder.planned(options)] == ["bcl-taught", "gcl"]


def test_a_row_can_be_trained_as_it_is_and_with_several_changes_at_once(tmp_path):
    words = ["cifar100-lt-tune:100", "--out", str(tmp_path), "--device", "cpu", "--rows", "gcl", "--seeds", "3"]
    sets = ["--set", "--set", "stage2.sampler=sqrt", "--set", "stage1.weight_decay=5e-4", "stage2.weight_decay=5e-4"]
    runs = ladder.planned(ladder.arguments([*words, *sets]))
    assert [changes for _, changes in runs] == [[], [sets[2]], sets[4:]]
    plain, sampled, decayed = (run for run, _ in runs)
    assert [run.recipe.stage2.sampler.name for run in (plain, sampled, decayed)] == ["cb", "sqrt", "cb"]
    assert (decayed.recipe.stage1.weight_decay, decayed.recipe.stage2.weight_decay) == (5e-4, 5e-4)
    assert len({run.folder.path for run in (plain, sampled, decayed)}) == 3


def run_of(row, seed, accuracy, first=None, **groups):
    stages = [{"epochs": 1, "balanced_accuracy": value} for value in (first, accuracy) if value is not None]
    found = {"row": row, "label": row.upper(), "changed": [], "seed": seed, "balanced_accuracy": accuracy}
    origin = {"machine": {"gpu": "a GPU", "torch": "2.9"}, "commit": "abc", "fingerprint": "f00"}
    return found | {"stages": stages, "many": None, "medium": None, "few": None} | groups | origin


def test_the_newer_of_two_runs_counts_and_rungs_are_in_order():
    before = [run_of("vs-ema", 0, 50.0), run_of("gcl", 0, 40.0), run_of("gcl", 1, 41.0)]
    found = ladder.merged(before, [run_of("gcl", 0, 45.0)])
    assert [(run["row"], run["balanced_accuracy"]) for run in found] == [("gcl", 45.0), ("gcl", 41.0), ("vs-ema", 50.0)]


def test_the_table_has_a_row_for_each_rung_and_columns_for_each_data_set():
    records = [
        {"data": "a-tune:100", "runs": [run_of("vs-ema", 0, 50.0, many=60.0)]},
        {"data": "b-tune:100", "runs": [run_of("gcl", 0, 40.0, 30.0), run_of("gcl", 1, 42.0, 31.0)]},
    ]
    header, _, *rows, _, first, second = "\n".join(ladder_table.parts(records)).splitlines()
    assert header == "|  | `a-tune:100` | after stage 1 | many | `b-tune:100` | after stage 1 |"
    assert rows == ["| GCL | n/a | n/a | n/a | 41.0 ± 1.4 | 30.5 ± 0.7 |", "| VS-EMA | 50.0 |  | 60.0 | n/a | n/a |"]
    assert first == "- `a-tune:100`: seed 0; images `f00`; a GPU, torch 2.9; commit `abc`"
    assert second.startswith("- `b-tune:100`: seed 0, 1;")


def test_the_first_step_has_a_row_for_each_turn():
    seconds = {"headers_read": 1.0, "recipe_chosen": 2.25, "first_step": 3.0, "end": 40.0}
    origin = {"machine": {"gpu": None, "processor": "a CPU", "torch": "2.9"}, "commit": "abc"}
    rows = [{"turn": "first", "seconds": seconds}, {"turn": "again", "seconds": seconds}]
    table = first_step_table.parts([{"images": 3000, "budget": "45s", "cores": 2, "rows": rows} | origin])
    assert "| 3,000 images, again | 45s | 1.0 | 2.2 | 3.0 | 40.0 |" in table[0]
    assert table[-1] == "- measured on a CPU, 2 cores, torch 2.9, commit `abc`"
