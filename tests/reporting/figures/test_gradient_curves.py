"""Curves of the gradient on the target logit: drawn where they were watched, right, and never in the way."""

import re
from pathlib import Path

import pytest

from helpers.html_page import Page
from helpers.synthetic_runs import make_log, make_result, write_run
from tailcloud.errors import TailcloudError
from tailcloud.reporting import write_report
from tailcloud.reporting.figures.gradient_curves import plot_gradients, plot_method_gradients
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.epoch_log import Epoch
from tailcloud.runs.result import parse_result


def watched_log(result, factor=1.0):
    """Gradients that fall from epoch to epoch, fastest for frequent classes."""
    log = make_log(result)
    counts = result["dataset"]["counts"]
    for place, line in enumerate(log):
        line["gradients"] = [factor * 0.9 / (1 + place * n / 50) if n else None for n in counts]
    return log


def epochs(log):
    return [Epoch.model_validate(line) for line in log]


def drawn(figure):
    """The lines of a drawing: css class and heights."""
    paths = re.findall(r'class="line ([^"]*)" d="M([^"]*)"', str(figure.drawing))
    return {css: [float(point.split()[1]) for point in path.split("L")] for css, path in paths}


@pytest.mark.parametrize("classes", [1, 10, 100])
def test_a_curve_for_each_shot_group(classes):
    raw = make_result(classes)
    figure = plot_gradients(parse_result(raw), epochs(watched_log(raw)))
    assert not re.search(r"\bnan\b|\binf\b|None", str(figure.drawing), flags=re.IGNORECASE)
    lines = drawn(figure)
    assert set(lines) == {group for group, size in parse_result(raw).group_sizes.items() if size}
    assert all(heights == sorted(heights) for heights in lines.values())  # down the page: smaller and smaller


def test_the_tail_keeps_its_gradient_longest_and_means_are_over_classes():
    raw = make_result(10, counts=[200, 10, 2])
    log = epochs(watched_log(raw))
    lines = drawn(plot_gradients(parse_result(raw), log))
    assert lines["few"][-1] < lines["many"][-1]
    last, first = log[-1].gradients, log[0].gradients
    assert first == pytest.approx([0.9] * 3)
    middle = (last[1] + last[2]) / 2
    alone = epochs([watched_log(raw)[-1] | {"gradients": [last[0], middle, None]}])
    together = plot_gradients(parse_result(raw), epochs(watched_log(raw)[-1:]))
    assert str(plot_gradients(parse_result(raw), alone).drawing) == str(together.drawing)


def compared(raws, factors):
    """The figure of several watched runs."""
    results = [parse_result(raw) for raw in raws]
    logs = [tuple(epochs(watched_log(raw, factor))) for raw, factor in zip(raws, factors, strict=True)]
    runs = [RunRecord(Path(), result, log, "") for result, log in zip(results, logs, strict=True)]
    return plot_method_gradients(by_dataset(results)[0], runs)


def test_seeds_of_a_method_are_averaged():
    raws = [make_result(10, method=method, seed=seed) for method in ("ce", "gcl") for seed in (0, 1)]
    figure = compared(raws, (0.1, 0.3, 1.0, 1.0))
    assert [words.split(",")[0] for _, words in figure.legend] == ["ce", "gcl"]
    assert str(figure.drawing) == str(compared(raws, (0.2, 0.2, 1.0, 1.0)).drawing)
    assert str(figure.drawing) != str(compared(raws, (0.1, 0.1, 1.0, 1.0)).drawing)


def test_runs_that_were_not_watched_are_left_out(tmp_path):
    ce, gcl = make_result(10, method="ce", stages=1), make_result(10)
    runs = [write_run(tmp_path / "ce", ce), write_run(tmp_path / "gcl", gcl, watched_log(gcl))]
    page = Page(write_report(runs, tmp_path / "c.html").read_text(encoding="utf-8"))
    assert page.text.count("Softmax saturation") == 1
    assert "Softmax saturation" not in write_report(runs[:1]).read_text(encoding="utf-8")
    assert "Softmax saturation" in write_report(runs[1:]).read_text(encoding="utf-8")


def test_a_gradient_that_is_missing_for_some_class_is_a_damaged_log(tmp_path):
    raw = make_result(10)
    log = watched_log(raw)
    log[3]["gradients"].pop()
    with pytest.raises(TailcloudError, match=r"line 4 of .* is damaged"):
        write_report([write_run(tmp_path / "run", raw, log)])


def test_gradients_that_vanish_stay_on_the_page():
    raw = make_result(10)
    log = watched_log(raw, 1e-30)
    figure = plot_gradients(parse_result(raw), epochs(log))
    assert max(max(heights) for heights in drawn(figure).values()) <= 296
