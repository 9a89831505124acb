"""Calibration by shot group, and accuracy at other class frequencies, on a page."""

import re

import pytest

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, write_run
from tailcloud.reporting import write_report
from tailcloud.reporting.comparison import deployment_cells
from tailcloud.reporting.figures.reliability import (
    plot_calibrated,
    plot_reliability,
    pooled_bins,
    temperature_sentence,
)
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.result import parse_result


def page_of(tmp_path, *results):
    folders = [write_run(tmp_path / str(place), result) for place, result in enumerate(results)]
    return Page(write_report(folders, tmp_path / "page.html").read_text(encoding="utf-8"))


def test_a_panel_for_all_images_and_for_each_group_that_has_some():
    result = make_result(10, counts=[50, 30, 5])
    svg = str(plot_calibrated(parse_result(result)).drawing)
    assert re.findall(r">(all|many|medium|few): ", svg) == ["all", "medium", "few"]
    few = result["calibrated"]["groups"]["few"]
    assert f"few: ECE {few['before']['ece']:.1f} → {few['after']['ece']:.1f}\u00a0%" in svg


def test_the_temperature_comes_with_the_images_it_was_fitted_on(tmp_path):
    result = make_result(10)
    result["calibrated"] |= {"temperature": 1.234, "ece": 4.04}
    result["calibrated"]["before"]["ece"] = 13.21
    words = (
        "Temperature 1.23, fitted on 71 validation images: the ECE (calibration error) on the test images changes from "
        "13.2 % to 4.0 %."
    )
    assert words in page_of(tmp_path, result).text


def weighted_result():
    """On the test images as they are 7.0 → 11.2, at the class frequencies that the model assumes 10.9 → 1.7."""
    result = make_result(10)
    used = {key: result["calibrated"][key] for key in ("reliability", "groups")}
    result["ece"], result["calibrated"]["ece"], result["calibrated"]["before"]["ece"] = 23.9, 11.2, 7.0
    result["calibrated"]["weighted"] = {"prior": "uniform", "effective_images": 49.7, "ece": 1.7, **used}
    result["calibrated"]["weighted"]["by_chance"] = 1.5
    result["calibrated"]["weighted"]["before"] = {"ece": 10.9, "reliability": []}
    return result


def test_the_page_leads_with_the_ece_of_the_probabilities_that_predict_gives(tmp_path):
    text = page_of(tmp_path, weighted_result()).text
    assert "ECE 1.7 % calibration error (calibrated; all classes equally often)" in text
    assert "Reliability: ECE 1.7 % (calibrated; all classes equally often)" in text
    assert "ECE 23.9" not in text


def test_probabilities_and_the_images_that_judge_them_have_the_same_mix_and_both_are_named():
    result = parse_result(weighted_result())
    said = temperature_sentence(result.calibrated).replace("\u00a0", " ")
    assert "from 10.9 % to 1.7 % at the class frequencies that the probabilities assume (all classes equally" in said
    assert (
        "worth 50 images of equal weight; with so few images even perfect probabilities would show about 1.5." in said
    )
    assert "On the test images as they are, which have other class frequencies, it changes from 7.0 % to 11.2 %" in said
    assert "all: ECE 10.9 → 1.7\u00a0%" in str(plot_calibrated(result).drawing)
    assert "Test images are weighted: all classes equally often." in plot_calibrated(result).caption
    assert "all classes equally often" in plot_reliability(result).caption


def test_an_ece_without_temperature_is_named_so(tmp_path):
    result = make_result(10)
    result["calibrated"] |= {"temperature": 1.0, "fitted_on": None, "ece": 23.9}
    assert "ECE 23.9 % calibration error (not calibrated)" in page_of(tmp_path / "one", result).text
    del result["calibrated"]
    assert f"ECE {result['ece']:.1f} % calibration error (not calibrated)" in page_of(tmp_path / "two", result).text


def test_where_nothing_was_held_out_the_page_says_so():
    result = make_result(10)
    result["calibrated"] |= {"temperature": 1.0, "fitted_on": None, "images": 0}
    parsed = parse_result(result)
    assert "No temperature was fitted" in temperature_sentence(parsed.calibrated)
    figure = plot_calibrated(parsed)
    assert "→" not in str(figure.drawing)
    assert not figure.legend


def test_three_class_frequencies_plain_and_adjusted(tmp_path):
    result = make_result(10)
    result["priors"] |= {
        "forward": {"plain": 71.1, "adjusted": 72.2},
        "uniform": {"plain": 61.1, "adjusted": 62.2},
        "backward": {"plain": 51.1, "adjusted": None},
    }
    text = page_of(tmp_path, result).text
    assert "as in training 71.1 % 72.2 % all classes equally often 61.1 % 62.2 % reversed: the rarest class" in text
    assert "51.1 % n/a" in text


def test_results_from_before_there_was_any_of_it(tmp_path):
    result = make_result(10)
    del result["calibrated"], result["priors"]
    assert "Calibration and class frequencies" not in page_of(tmp_path / "one", result).text
    assert "Calibration and class frequencies" not in page_of(tmp_path / "two", result, result | {"method": "ce"}).text


def test_a_comparison_has_it_for_each_method(tmp_path):
    results = [make_result(10, seed=seed) for seed in (0, 1)] + [make_result(10, method="ce", stages=1)]
    for result, ece in zip(results, (4.0, 6.0, 9.0), strict=True):
        result["ece"], result["calibrated"]["ece"] = 20.0, ece
        result["priors"]["backward"]["adjusted"] = 10 * ece
    text = page_of(tmp_path, *results).text
    assert re.search(
        r"class frequencies .* gcl 20\.0 ± 0\.0 5\.0 ± 1\.4 1\.50 ± 0\.00 .* 50\.0 ± 14\.1 ce 20\.0 9\.0",
        text,
    )
    assert "Accuracy while training" in text
    assert re.search(r"Reliability gcl : ECE|Reliability gcl: ECE 20\.0", text)


def test_two_runs_of_a_seed_are_no_deviation(tmp_path):
    results = [make_result(10, seed=seed) for seed in (0, 0, 1)]
    for result, ece in zip(results, (4.0, 6.0, 9.0), strict=True):
        result["calibrated"]["ece"] = ece
    (table,) = by_dataset(results)
    assert deployment_cells(table.rows[0])[1] == "7.0 ± 2.8"


def test_a_comparison_lists_the_classes_of_each_method(tmp_path):
    results = [make_result(10, method=method) for method in ("ce", "gcl")]
    results[0]["per_class"][9], results[1]["per_class"][9] = 12.3, 45.6
    page = page_of(tmp_path, *results)
    assert "9 few 2 12.3 45.6" in page.text
    assert len(page.scripts) == 1


@pytest.mark.parametrize(("classes", "methods"), [(1000, 3), (1000, 25)])
def test_a_comparison_of_many_classes_and_methods_stays_small(tmp_path, classes, methods):
    results = [make_result(classes, method=f"m{number}", stages=1) for number in range(methods)]
    folders = [write_run(tmp_path / str(place), result, []) for place, result in enumerate(results)]
    assert len(write_report(folders, tmp_path / "page.html").read_bytes()) < 5_000_000


def test_bins_of_several_runs_are_one():
    results = [make_result(10, seed=seed) for seed in (0, 1)]
    for result, (count, accuracy) in zip(results, ((10, 0.5), (30, 0.9)), strict=True):
        result["reliability"] = [{"count": count, "confidence": 0.8, "accuracy": accuracy}, {"count": 0}]
    (table,) = by_dataset(results)
    first, second = pooled_bins(table.rows[0])
    assert (first.count, first.confidence, first.accuracy) == (40, pytest.approx(0.8), pytest.approx(0.8))
    assert second.count == 0
