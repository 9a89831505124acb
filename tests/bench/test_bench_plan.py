"""From a table to runs: recipes, folders, commands, and who trains which first stage."""

import json
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.small_table import table
from tailcloud.bench import TABLES, BenchProtocol, plan_bench, read_table
from tailcloud.bench.bench_runner import take_finished
from tailcloud.bench.plan import in_order, steps_of
from tailcloud.cli import app
from tailcloud.cli.bench_display import BenchProgress
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.runs.fork import first_stage_file

OUT = Path("out")


def test_every_cell_has_a_run_for_every_seed():
    runs = plan_bench(table(), BenchProtocol(seeds=(0, 5)), OUT).runs
    assert len(runs) == 3 * 2 * 2
    assert len({run.folder.path for run in runs}) == len(runs)
    first, last = runs[0], runs[-1]
    assert first.folder.path == OUT / "digits-lt-ce-seed0"
    assert last.folder.path == OUT / "digits-lt-20-gcl-cben-seed5"
    assert (last.recipe.seed, last.recipe.data.spec, last.recipe.stage2.sampler.name) == (5, "digits-lt:20", "cben")
    assert first.recipe == load_recipe("digits-lt/ce", [{"data": "digits-lt"}])


def test_the_command_of_a_run_asks_for_the_same_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    protocol = BenchProtocol(seeds=(3,), epochs=2, settings=["model.width=0.25"], root="some where")
    run = plan_bench(table(), protocol, OUT).runs[-1]
    words = [*shlex.split(run.command)[1:], "--dry-run"]
    assert "seed 3" in CliRunner().invoke(app, words, catch_exceptions=False).output
    settings = [word for option, word in pairwise(words) if option == "--set"]
    assert settings == ["stage2.sampler=cben", "stage1.epochs=2", "stage2.epochs=1", "model.width=0.25"]


def test_shortened_runs_are_labelled_and_kept_apart():
    protocol = BenchProtocol(epochs=6)
    assert (protocol.label, protocol.folder) == ("shortened: stage 1 has at most 6 epochs", "shortened-6")
    ce, gcl = plan_bench(table(), protocol, OUT).runs[0].recipe, plan_bench(table(), protocol, OUT).runs[3].recipe
    assert (ce.stage1.epochs, ce.stage2) == (6, None)
    assert (gcl.stage1.epochs, gcl.stage2.epochs) == (6, 1)
    assert BenchProtocol(epochs=6, settings=["stage1.lr=0.2"]).folder != protocol.folder
    assert (BenchProtocol().label, BenchProtocol().folder) == ("", "")


def test_nothing_is_made_longer():
    assert (
        plan_bench(table(), BenchProtocol(epochs=1000), OUT).runs[3].recipe
        == plan_bench(table(), BenchProtocol(), OUT).runs[3].recipe
    )


def test_a_stage_without_epochs_stays_without():
    rows = [{"label": "One", "method": "gcl", "set": ["stage2.epochs=0"]}]
    assert plan_bench(table(rows=rows), BenchProtocol(epochs=6), OUT).runs[0].recipe.stage2.epochs == 0


def test_settings_are_labelled_unless_they_only_say_how_to_compute():
    changed = BenchProtocol(settings=["stage1.lr=0.2", "engine.threads=1"])
    assert changed.label == "changed: stage1.lr=0.2"
    assert changed.folder.startswith("changed-")
    assert BenchProtocol(settings=["engine.threads=1", "logging.gradients=true"]).label == ""


def test_settings_of_a_second_stage_leave_rows_without_one_alone():
    runs = plan_bench(table(), BenchProtocol(settings=["stage2.lr=0.5"]), OUT).runs
    assert {run.recipe.method: run.recipe.stage2 and run.recipe.stage2.lr for run in runs} == {"ce": None, "gcl": 0.5}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 0}, "--epochs 0 must be at least 1"),
        ({"seeds": (1, 1)}, "each seed can be given once"),
        ({"settings": ["method=ce"]}, "--set method=ce: the table decides"),
        ({"settings": ["data=digits-lt"]}, "--set data=digits-lt: the table decides"),
    ],
)
def test_a_protocol_that_would_be_another_table_is_refused(changes, sentence):
    with pytest.raises(UsageError, match=sentence):
        BenchProtocol(**changes)


def test_a_row_that_cannot_be_a_recipe_is_a_sentence_and_stops_no_other():
    rows = [{"label": "One", "method": "nobodys"}, {"label": "Two", "method": "ce"}]
    made = plan_bench(table(rows=rows), BenchProtocol(), OUT)
    assert len(made.runs) == 6
    assert 'no method "nobodys"' in made.impossible["nobodys", "digits-lt"]
    with pytest.raises(UsageError, match="nobodys"):
        plan_bench(table(rows=rows[:1]), BenchProtocol(), OUT)


def test_the_large_data_sets_are_planned_and_share_first_stages():
    runs = plan_bench(read_table("table2"), BenchProtocol(seeds=(0,)), OUT).runs
    assert len(runs) == 30
    parents = {step.run.title: step.parent.title for step in steps_of(runs) if step.parent}
    assert parents["imagenet-lt ce-mixup+crt seed 0"] == "imagenet-lt ce-mixup seed 0"
    assert parents["places-lt mislas seed 0"] == "places-lt ce-mixup seed 0"
    assert parents["inat2018 lws seed 0"] == "inat2018 ce seed 0"


def test_rows_that_differ_in_the_second_stage_alone_share_the_first():
    runs = plan_bench(table(), BenchProtocol(seeds=(0, 1)), OUT).runs
    steps = {step.run.folder.path.name: step for step in steps_of(runs)}
    parents = {name: step.parent.folder.path.name for name, step in steps.items() if step.parent}
    assert parents == {
        "digits-lt-gcl-cben-seed0": "digits-lt-gcl-seed0",
        "digits-lt-gcl-cben-seed1": "digits-lt-gcl-seed1",
        "digits-lt-20-gcl-cben-seed0": "digits-lt-20-gcl-seed0",
        "digits-lt-20-gcl-cben-seed1": "digits-lt-20-gcl-seed1",
    }
    ordered = in_order(list(steps.values()))
    assert {step.run.folder.path.name for step in ordered[-len(parents) :]} == set(parents)
    assert len(ordered) == len(runs)


def test_a_row_that_is_nothing_but_the_first_stage_owns_it():
    rows = [
        {"label": "One", "method": "gcl"},
        {"label": "Two", "method": "gcl", "variant": "stage1", "set": ["stage2.epochs=0"]},
    ]
    one, two = steps_of(plan_bench(table(rows=rows, columns=["digits-lt"]), BenchProtocol(seeds=(0,)), OUT).runs)
    assert (two.parent, one.parent) == (None, two.run)


def test_a_run_that_was_begun_goes_on_by_itself_and_lends_its_first_stage(tmp_path):
    runs = plan_bench(table(columns=["digits-lt"], rows=table_rows()), BenchProtocol(seeds=(0,)), tmp_path).runs
    begun = runs[1]
    begun.folder.create(begun.recipe)
    assert [step.parent for step in steps_of(runs)] == [begun, None]
    finish(begun)
    steps = steps_of(runs)
    assert [(step.run, step.parent) for step in steps] == [(runs[0], begun)]
    assert in_order(steps) == steps


def test_a_finished_run_without_its_checkpoints_lends_nothing(tmp_path):
    rows = [*table_rows(), {"label": "Three", "method": "gcl", "variant": "ib", "set": ["stage2.sampler=ib"]}]
    runs = plan_bench(table(columns=["digits-lt"], rows=rows), BenchProtocol(seeds=(0,)), tmp_path).runs
    runs[0].folder.create(runs[0].recipe)
    finish(runs[0])
    first_stage_file(runs[0].folder, runs[0].recipe).unlink()
    assert [(step.run, step.parent) for step in steps_of(runs)] == [(runs[1], None), (runs[2], runs[1])]


def finish(run):
    """As if the run had been trained."""
    folder = run.folder
    folder.checkpoints.mkdir()
    for file in (folder.result_file, folder.weights_file, folder.model_file, first_stage_file(folder, run.recipe)):
        file.write_text(json.dumps({}))


def table_rows():
    return [
        {"label": "Two", "method": "gcl"},
        {"label": "Two, again", "method": "gcl", "variant": "cben", "set": ["stage2.sampler=cben"]},
    ]


def test_one_first_stage_serves_a_whole_ablation():
    for name in ("sampling", "retraining"):
        runs = plan_bench(read_table(name), BenchProtocol(seeds=(0,)), OUT).runs
        assert sum(step.parent is None for step in steps_of(runs)) == 1
    runs = plan_bench(read_table("cloud-size"), BenchProtocol(seeds=(0,)), OUT).runs
    assert (len(runs), sum(step.parent is None for step in steps_of(runs))) == (8, 4)


def test_a_row_of_the_same_name_is_the_same_run_in_every_table():
    """So tables can share a folder."""
    settings = {}
    for name in TABLES:
        for row in read_table(name).rows:
            assert settings.setdefault(row.key, row.settings) == row.settings, row.key


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_a_recipe(name):
    assert plan_bench(read_table(name), BenchProtocol(seeds=(0, 1, 2)), OUT).impossible == {}


def test_a_folder_of_an_older_version_is_continued_as_it_was_started(tmp_path):
    """It was evaluated after every epoch, which was the default then; new runs share its first stage."""
    runs = plan_bench(table(), BenchProtocol(seeds=(0,)), tmp_path).runs[:3]  # of the first data set
    _, plain, cben = runs
    then = plain.recipe.model_copy(update={"selection": plain.recipe.selection.model_copy(update={"every": 1})})
    plain.folder.create(then)
    progress = BenchProgress(table(), BenchProtocol(), runs)
    taken = take_finished(runs, progress)
    assert not progress.failures
    assert [run.recipe for run in taken] == [runs[0].recipe, then, cben.recipe]
    assert [step.parent and step.parent.title for step in steps_of(taken)] == [None, None, plain.title]
