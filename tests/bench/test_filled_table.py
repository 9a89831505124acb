"""A table with figures in it: means, marks, words, JSON and the page."""

import json

import pytest
from recorded_results import fill_from_records, table_variant

from helpers.small_table import measured, table
from tailcloud.bench import BenchProtocol
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.filled_table import fill_table
from tailcloud.bench.table import read_table
from tailcloud.bench.table_text import SHORT_COLUMNS, columns_for, legend, markdown_sections, remarks, text_rows
from tailcloud.recipe import load_recipe

HIGH = {("ce", "digits-lt"): [measured(1, 72.0), measured(0, 70.0)]}


def only(filled):
    return next(cell for cell in filled.cells if cell.results)


def numbers(value):
    """The small table with another published number."""
    rows = [{"label": "One", "method": "ce", "paper": [value, "-"]}]
    return table(rows=rows)


def test_a_cell_is_the_mean_over_seeds_beside_the_published_number():
    line = text_rows([only(fill_table(numbers(70.5), HIGH))], list(SHORT_COLUMNS))[0]
    assert line == ["One", "2", "71.0 ± 1.4", "70.50", "+0.5", "72.0 ± 1.4 on test"]


@pytest.mark.parametrize(("balanced", "shown"), [(60.0, True), (72.0 + 1e-12, False), (None, False)])
def test_balanced_accuracy_has_a_column_where_test_images_are_imbalanced(balanced, shown):
    found = {("ce", "digits-lt"): [measured(0, 72.0, balanced_accuracy=balanced)]}
    filled = fill_table(numbers(70.5), found)
    columns = columns_for(filled.column("digits-lt"), SHORT_COLUMNS)
    assert ("balanced_accuracy" in columns) is shown
    assert list(columns)[:3] == ["row", "seeds", "top1"]
    assert ("| balanced accuracy |" in markdown_sections(filled)[1]) is shown
    assert ("balanced accuracy" in bench_page([filled])) is shown


@pytest.mark.parametrize(("published", "below"), [(72.0, False), (72.01, True), (70.0, False), ("-", False)])
def test_a_cell_is_marked_when_it_is_more_than_a_point_below(published, below):
    filled = fill_table(numbers(published), HIGH)
    assert only(filled).below is below
    assert ("▼" in " ".join(markdown_sections(filled))) is below


def test_a_shortened_run_is_labelled_and_never_marked():
    filled = fill_table(numbers(90.0), HIGH, protocol=BenchProtocol(epochs=2))
    assert not only(filled).below
    assert legend(filled).startswith("Shortened: stage 1 has at most 2 epochs. ")
    assert "shortened" in bench_page([filled])
    assert filled.record()["shortened"] is True
    assert filled.record()["cells"][0]["gap"] is None
    assert fill_table(numbers(90.0), HIGH).record()["shortened"] is False


def test_a_changed_recipe_is_not_held_against_the_published_number():
    filled = fill_table(numbers(90.0), HIGH, protocol=BenchProtocol(settings=["stage1.epochs=1"]))
    assert not only(filled).below
    assert text_rows([only(filled)], ["published", "gap"])[0] == ["90.00", "–"]
    assert "within a point" not in bench_page([filled])
    assert only(fill_table(numbers(90.0), HIGH, protocol=BenchProtocol(settings=["engine.threads=1"]))).below


def test_what_is_not_measured_is_a_dash_and_what_failed_says_so():
    filled = fill_table(table(), {}, {("gcl", "digits-lt"): ["the disk is full", "the disk is full"]})
    ce, gcl, _ = filled.column("digits-lt")
    assert text_rows([ce], list(SHORT_COLUMNS))[0] == ["One", "–", "–", "1.00", "–", "–"]
    assert text_rows([gcl], ["seeds", "top1"])[0] == ["–", "failed"]
    assert remarks([ce, gcl]) == ["Two failed: the disk is full"]


def test_a_finished_text_names_what_is_not_measured_in_a_sentence_and_a_page_folds_it_away():
    rows = [
        {"label": "One", "method": "ce", "paper": [70.0, 60.0]},
        {"label": "Two, by others", "method": "gcl", "other": [80.0, "-"], "source": "somebody"},
        {"label": "Three", "method": "focal"},
        {"label": "Four", "method": "ldam"},
    ]
    filled = fill_table(table(rows=rows), HIGH, {("ldam", "digits-lt"): ["the disk is full"]})
    text = "\n".join(markdown_sections(filled))
    measured_on, empty = text.split("### ")[1:]
    assert "- Not measured: Two, by others (published: 80.00 (somebody)); Three." in measured_on
    assert [line.split(" |")[0] for line in measured_on.splitlines() if line.startswith("| ")][2:] == [
        "| One",
        "| Four",
    ]
    assert "Not measured" not in empty  # of which there is nothing yet, and every row is shown
    assert empty.count("\n| ") == 2 + len(rows)
    page = bench_page([filled])
    open_part, folded = page.partition("<details")[::2]
    assert "2\u00a0methods not measured</summary>" in folded
    assert open_part.index("One") < open_part.index("Four")
    assert "Two, by others" not in open_part
    assert "<title>One 71.0 ± 1.4, published 70.00</title>" in page
    assert page.index("80.00 (somebody)") < page.index("<h3>digits-lt:20")


def test_a_cell_can_have_some_seeds_and_some_failures():
    filled = fill_table(table(), HIGH, {("ce", "digits-lt"): ["no"]})
    assert text_rows([only(filled)], ["seeds", "top1"])[0] == ["2, 1 failed", "71.0 ± 1.4"]


def test_a_note_stands_under_the_data_set_of_a_marked_cell_alone():
    notes = {"ce digits-lt": "longer training gave nothing."}
    marked = fill_table(numbers(90.0).model_copy(update={"notes": notes}), HIGH)
    assert "- One: longer training gave nothing." in markdown_sections(marked)
    assert "longer training gave nothing." in bench_page([marked])
    for filled in (
        fill_table(numbers(70.0).model_copy(update={"notes": notes}), HIGH),
        fill_table(marked.table, {}),
        fill_table(marked.table, HIGH, protocol=BenchProtocol(epochs=2)),
    ):
        assert remarks(filled.cells) == []


def test_the_record_has_everything():
    record = json.loads(json.dumps(fill_table(table(), HIGH).record()))
    assert record["table"] == "t"
    cell = record["cells"][0]
    assert cell["published"] == {"value": 1.0, "source": "paper"}
    assert (cell["top1"]["mean"], cell["top1"]["n"], cell["best"]["mean"]) == (71.0, 2, 72.0)
    assert [one["seed"] for one in cell["per_seed"]] == cell["seeds"] == [0, 1]
    assert {key: cell[key] for key in ("parameters", "flops", "fingerprint", "best_on", "gap", "below")} == {
        "parameters": 464144,
        "flops": 69_800_000,
        "fingerprint": "0123456789abcdef",
        "best_on": "test",
        "gap": 70.0,
        "below": False,
    }
    assert cell["many"]["mean"] == 90.0
    assert cell["ece"]["mean"] == 3.0
    assert record["cells"][1]["top1"] == {"mean": None, "std": None, "n": 0}


def test_the_record_has_the_balanced_accuracy_that_tuning_compares():
    found = {("ce", "digits-lt"): [measured(seed, 72.0, balanced_accuracy=60.0 + seed) for seed in (0, 2)]}
    cell = fill_table(table(), found).record()["cells"][0]
    assert cell["balanced_accuracy"]["mean"] == 61.0
    assert [one["balanced_accuracy"] for one in cell["per_seed"]] == [60.0, 62.0]


def test_the_page_is_whole_and_escapes_what_it_is_told():
    rows = [{"label": "<b>One</b>", "method": "ce", "paper": [80.0, "-"]}]
    page = bench_page([fill_table(table(rows=rows), HIGH)])
    assert "<b>One" not in page
    assert "&lt;b&gt;One" in page
    assert "1 of 1" not in page
    assert "0 of 1 within a point of the published number" in page
    assert "<svg" in page
    assert "0123456789abcdef" in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_page_of_large_data_says_what_is_missing():
    page = bench_page([fill_table(read_table("table2"), {})])
    assert "nothing measured yet" in page
    assert "437,513 training" in page
    assert "72.01" in page


def recipe_of(name, spec, *settings):
    return load_recipe(name, [{"data": spec}, *settings]).substance()


def test_a_record_goes_to_the_cell_with_its_recipe():
    cben = {"stage2": {"sampler": "cben"}}
    results = [
        measured(0, 80.0, method="gcl", recipe=recipe_of("digits-lt/gcl", "digits-lt")),
        measured(1, 81.0, method="gcl", recipe=recipe_of("digits-lt/gcl", "digits-lt", {"seed": 1})),
        measured(1, 11.0, method="gcl", recipe=recipe_of("digits-lt/gcl", "digits-lt", {"seed": 1})),
        measured(0, 82.0, method="gcl", recipe=recipe_of("digits-lt/gcl", "digits-lt", cben)),
        measured(0, 12.0, method="gcl", recipe=recipe_of("digits-lt/gcl", "digits-lt", {"stage1": {"epochs": 2}})),
        measured(0, 13.0, method="ce"),
        measured(0, 14.0, method="ce", recipe={"method": "nobodys"}),
        measured(0, 15.0, spec="digits-lt:7", recipe=recipe_of("digits-lt/ce", "digits-lt:7")),
    ]
    filled = fill_from_records(table(), results)
    found = {
        (cell.row.key, cell.spec): [one.top1.last for one in cell.results] for cell in filled.cells if cell.results
    }
    assert found == {("gcl", "digits-lt"): [80.0, 81.0], ("gcl-cben", "digits-lt"): [82.0]}


@pytest.mark.parametrize(("pick", "filled"), [("last", 1), ("best", 0)])
def test_a_record_that_was_evaluated_more_often_has_the_recipe_of_its_cell(pick, filled):
    """Unless the best epoch is kept, that changes no weights; records of older versions were always evaluated."""
    often = recipe_of("digits-lt/gcl", "digits-lt", {"selection": {"every": 1, "pick": pick}})
    assert often["selection"]["every"] == 1
    cells = fill_from_records(table(), [measured(0, 80.0, method="gcl", recipe=often)]).cells
    assert sum(len(cell.results) for cell in cells) == filled


def test_a_cell_says_among_how_many_epochs_the_best_was_chosen():
    stages = [{"name": "stage1", "epochs": 200}]
    result = measured(0, 70.0, stages=stages)
    result = result.model_copy(update={"top1": result.top1.model_copy(update={"evaluated_epochs": 57})})
    (line,) = text_rows([only(fill_table(numbers(70.5), {("ce", "digits-lt"): [result]}))], ["best"])
    assert line == ["71.0 on test, best of 57\u00a0evaluated epochs"]
    assert "among how many epochs" in legend(fill_table(table(), HIGH))


def test_a_variant_is_known_by_its_recipe():
    spec = "cifar10-lt:100"
    sampler = {"stage2": {"sampler": "en"}}
    en = measured(0, 80.0, spec=spec, method="gcl", recipe=recipe_of("cifar10-lt/gcl", spec, sampler))
    plain = measured(0, 80.0, spec=spec, method="gcl", recipe=recipe_of("cifar10-lt/gcl", spec))
    assert (table_variant(en), table_variant(plain), table_variant(measured(0, 1.0))) == ("en", "", "")
