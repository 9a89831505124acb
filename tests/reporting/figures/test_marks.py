"""Names of marks: every dot, bar and cell says what it is."""

import re

import pytest

from helpers.synthetic_runs import make_log, make_result, with_test_counts
from tailcloud.formatting import short_names
from tailcloud.reporting.figures.class_changes import class_changes, plot_changes
from tailcloud.reporting.figures.class_plots import plot_classes, plot_counts, plot_method_classes
from tailcloud.reporting.figures.confusion import plot_confusion
from tailcloud.reporting.figures.learning_curves import plot_accuracy, plot_loss
from tailcloud.reporting.figures.shot_groups import plot_groups, plot_methods
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.epoch_log import Epoch
from tailcloud.runs.result import parse_result


def titles(figure):
    return [
        words.replace("\u00a0", " ") for words in re.findall("<title>(.*?)</title>", str(figure.drawing), re.DOTALL)
    ]


@pytest.mark.parametrize("classes", [10, 30, 100])
def test_every_class_is_named_in_every_chart_of_classes(classes):
    result = parse_result(with_test_counts(make_result(classes)))
    for plot in (plot_counts, plot_classes):
        found = titles(plot(result))
        assert all(sum(words.startswith(f"{name}: ") for words in found) == 1 for name in result.names)
    (table,) = by_dataset([make_result(classes), make_result(classes, method="ce")])
    assert len(titles(plot_method_classes(table))) >= classes


def test_a_class_is_named_with_its_accuracy_interval_and_images():
    raw = with_test_counts(make_result(10))
    raw["per_class"][0] = raw["stages"][-1]["per_class"][0] = 60.0
    before = raw["stages"][0]["per_class"][0]
    expected = (
        f"0: 60.0 % of 50 test images correct, 95 %: 46.2 – 72.4; 120 training images; after stage1 {before:.1f} %"
    )
    assert expected in titles(plot_classes(parse_result(raw)))


@pytest.mark.parametrize("classes", [2, 30, 100])
def test_every_cell_is_named_and_the_drawing_stays_small(classes):
    raw = make_result(classes)
    figure = plot_confusion(parse_result(raw))
    assert len(titles(figure)) == len(raw["confusion"])
    assert len(str(figure.drawing)) < 400_000
    true, predicted, count = next(cell for cell in raw["confusion"] if cell[0] != cell[1])
    names = raw["dataset"]["class_names"]
    assert f"{names[true]} → {names[predicted]}, {count} of 50 ({2 * count:.1f} %)" in titles(figure)


@pytest.mark.parametrize(("classes", "named", "wide"), [(20, True, False), (40, True, True), (41, False, False)])
def test_up_to_forty_classes_are_named_at_the_matrix(classes, named, wide):
    raw = make_result(classes, class_names=[f"species {place}" for place in range(classes)])
    figure = plot_confusion(parse_result(raw))
    words = re.findall(">([^<]+)</text>", str(figure.drawing))
    assert sum(word.startswith("spe") for word in words) == (2 * classes if named else 0)
    assert figure.wide == wide


def test_long_names_that_start_alike_stay_apart():
    names = ["Archaeopteryx lithographica", "Archaeopteryx siemensii", "owl"]
    assert short_names(names, 12) == ["Arch…raphica", "Arch…emensii", "owl"]


def test_bars_and_epochs_are_named():
    raw = make_result(10)
    result, log = parse_result(raw), [Epoch.model_validate(line) for line in make_log(raw)]
    groups = titles(plot_groups(result))
    assert len(groups) == 8
    assert f"few, after stage1: {result.stages[0].few:.1f} %" in groups
    (table,) = by_dataset([raw, make_result(10, seed=1)])
    assert len(titles(plot_methods(table))) == 3
    assert titles(plot_loss(log))[3].startswith("stage1, epoch 4\nloss ")
    assert titles(plot_accuracy(result, log))[0] == "stage1, epoch 1\nnot evaluated"
    assert f"\nfew {log[3].few:.1f} %" in titles(plot_accuracy(result, log))[3]
    assert len(titles(plot_accuracy(result, log))) == len(log)


def test_names_of_marks_are_escaped():
    raw = make_result(10, class_names=["</title><script>alert(1)</script>"] * 10)
    for plot in (plot_counts, plot_classes, plot_confusion, plot_changes):
        assert "<script" not in str(plot(parse_result(raw)).drawing)


def changed():
    raw = with_test_counts(make_result(4, counts=[200, 50, 10, 5], class_names=["cat", "dog", "owl", "eel"]))
    raw["stages"][0]["per_class"] = [80.0, 60.0, 20.0, None]
    raw["per_class"] = raw["stages"][-1]["per_class"] = [70.0, 60.0, 50.0, 40.0]
    return raw


def test_classes_that_gained_and_lost_are_counted():
    result = parse_result(changed())
    assert [(one.index, one.points, one.images) for one in class_changes(result)] == [
        (2, 30, 15),
        (1, 0, 0),
        (0, -10, -5),
    ]
    figure = plot_changes(result)
    assert figure.title == "Classes after stage1 and stage2: 1 gained, 1 lost, 1 stayed"
    assert "15\u00a0more test images correct in some classes, 5 fewer in others" in figure.caption
    assert titles(figure) == [
        "owl: 20.0 → 50.0 % (+30.0 points, +15 of 50 test images)",
        "cat: 80.0 → 70.0 % (−10.0 points, −5 of 50 test images)",
    ]


def test_one_stage_has_no_changes():
    assert plot_changes(parse_result(make_result(10, stages=1))) is None
    raw = make_result(10)
    del raw["stages"][0]["per_class"]
    assert plot_changes(parse_result(raw)) is None


def test_many_classes_show_the_largest_changes():
    figure = plot_changes(parse_result(make_result(100)))
    assert len(titles(figure)) <= 24
    assert "The 12 largest gains and losses are drawn" in figure.caption
