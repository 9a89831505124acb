"""The headline of a comparison, and the sentence on runs that were not trained alike."""

import pytest

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, with_test_counts, write_run
from tailcloud.reporting import write_report


def result_of(method, top1, seed=0, **changes):
    result = with_test_counts(make_result(10, method=method, seed=seed, **changes))
    result["top1"]["last"] = top1
    return result


def text_of(tmp_path, results):
    folders = [write_run(tmp_path / str(place), result) for place, result in enumerate(results)]
    return Page(write_report(folders).read_text(encoding="utf-8")).text.replace("\u00a0", " ")


@pytest.mark.parametrize(("tops", "leads"), [((80.0, 81.0), False), ((80.0, 90.0), True)])
def test_a_lead_within_the_chance_of_the_test_images_is_no_headline(tmp_path, tops, leads):
    text = text_of(tmp_path, [result_of(method, top1) for method, top1 in zip(("ce", "gcl"), tops, strict=True)])
    level = "No clear leader on synthetic-10: gcl and ce have 80.0 to 81.0 % top-1 accuracy, a difference within chance"
    assert ("gcl leads on synthetic-10: 90.0 % top-1 accuracy, +10.0 points over ce" in text) == leads
    assert (level in text) == (not leads)


def test_a_lead_within_the_chance_of_seeds_is_no_headline(tmp_path):
    tops = {"ce": (60.0, 80.0, 70.0), "gcl": (85.0, 70.0, 88.0)}
    results = [result_of(method, top1, seed) for method, values in tops.items() for seed, top1 in enumerate(values)]
    assert "No clear leader on synthetic-10: gcl and ce have 70.0 to 81.0 %" in text_of(tmp_path, results)


def test_balanced_accuracy_within_chance_is_no_headline(tmp_path):
    results = [
        result_of("ce", 60.0) | {"balanced_accuracy": 30.0},
        result_of("gcl", 40.0) | {"balanced_accuracy": 31.0},
    ]
    text = text_of(tmp_path, results)
    assert "ce leads" in text
    assert "leads in balanced accuracy" not in text


@pytest.mark.parametrize("balanced", [60.0, 30.0], ids=["the same", "another figure"])
def test_balanced_accuracy_has_a_column_where_it_is_another_figure(tmp_path, balanced):
    result = result_of("ce", 60.0) | {"balanced_accuracy": balanced}
    text = text_of(tmp_path, [result, result])
    assert ("few balanced accuracy ECE" in text) == (balanced != 60.0)
    assert ("Balanced accuracy, the mean over classes, is top-1 here." in text) == (balanced == 60.0)


def with_epochs(result, *epochs):
    for stage, number in zip(result["stages"], epochs, strict=True):
        stage["epochs"] = number
    return result


def test_epochs_are_in_the_table_and_unequal_ones_are_flagged(tmp_path):
    results = [with_epochs(result_of("ce", 60.0, stages=1), 30), result_of("gcl", 80.0)]
    text = text_of(tmp_path, results)
    assert "Not trained alike. Epochs differ: ce 30, gcl 60 + 10. Methods method seeds epochs top-1" in text
    assert "gcl 1 60 + 10 80.0" in text
    assert "ce synthetic-10 0 30 8 × 8 60.0" in text


def test_a_second_stage_of_the_head_belongs_to_the_method(tmp_path):
    recipe = {"stage1": {"train": "all"}, "stage2": {"train": "head"}}
    results = [result_of("ce", 60.0, stages=1), result_of("gcl", 80.0) | {"recipe": recipe}]
    assert "Not trained alike" not in text_of(tmp_path, results)


def test_a_second_stage_of_the_whole_network_is_more_training(tmp_path):
    recipe = {"stage1": {"train": "all"}, "stage2": {"train": "all"}}
    results = [result_of("ce", 60.0, stages=1), result_of("gcl", 80.0) | {"recipe": recipe}]
    assert "Epochs differ: ce 60, gcl 60 + 10." in text_of(tmp_path, results)


def test_other_sizes_and_images_are_flagged_above_each_table(tmp_path):
    small, large = result_of("ce", 60.0), result_of("ce", 80.0, shape=[64, 64, 3], fingerprint="ffff0000ffff0000")
    text = text_of(tmp_path, [small, large])
    assert text.count("Not trained alike. Image sizes differ: 8 × 8 and 64 × 64 pixels (height × width).") == 2
    assert text.count("used 2 different sets of images") == 2


def test_the_page_says_which_ece_it_shows(tmp_path):
    """A run's own line in the terminal has another one: that of the probabilities in use."""
    text = text_of(tmp_path, [result_of("ce", 60.0), result_of("gcl", 80.0)])
    assert "This ECE is of the test images as they are, before calibration" in text
