import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from helpers.synthetic_runs import make_log, make_result
from tailcloud.reporting.figures.class_plots import plot_classes, plot_counts, plot_method_classes
from tailcloud.reporting.figures.confusion import frequent_confusions, plot_confusion
from tailcloud.reporting.figures.learning_curves import plot_accuracy, plot_loss
from tailcloud.reporting.figures.reliability import plot_reliability
from tailcloud.reporting.figures.shot_groups import plot_groups, plot_methods
from tailcloud.reporting.figures.svg import Scale
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.epoch_log import Epoch
from tailcloud.runs.result import parse_result


def texts(drawing):
    """The words of a drawing, in order."""
    words = []
    parser = HTMLParser()
    parser.handle_data = words.append
    parser.feed(str(drawing))
    return words


def epochs(result):
    return [Epoch.model_validate(line) for line in make_log(result)]


def figures(classes, stages=2):
    raw = make_result(classes, stages=stages)
    result, log = parse_result(raw), epochs(raw)
    (table,) = by_dataset([raw, make_result(classes, method="ce", stages=1)])
    drawn = [plot_counts(result), plot_classes(result), plot_groups(result), plot_reliability(result)]
    drawn += [plot_loss(log), plot_accuracy(result, log), plot_methods(table), plot_method_classes(table)]
    return [*drawn, *([plot_confusion(result)] if classes <= 100 else [])]


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("classes", [1, 10, 21, 100, 1000])
def test_every_figure_has_a_label_a_caption_and_only_numbers(classes, stages):
    for figure in figures(classes, stages):
        svg = str(figure.drawing)
        assert re.match(r'<svg viewBox="[\d. ]+" role="img" aria-label="[^"]+">', svg)
        assert figure.caption.endswith(".")
        assert not re.search(r"\bnan\b|\binf\b|None", svg, flags=re.IGNORECASE)
        assert len(svg) < 200_000


def test_ten_classes_have_their_names_counts_and_accuracies():
    result = parse_result(make_result(10))
    assert {"120", "77", "2"} <= set(texts(plot_counts(result).drawing))
    words = texts(plot_classes(result).drawing)
    assert all(f"{value:.1f}" in words for value in result.per_class)
    assert set(result.names) <= set(words)


def test_no_dashed_line_crosses_a_count():
    svg = str(plot_counts(parse_result(make_result(10))).drawing)
    count = svg.index(">120<")
    assert svg.rindex('class="bound"') < svg.index('class="fill backdrop"') < count


def test_a_legend_has_the_parameters_once():
    results = [make_result(10), make_result(10, seed=1)]
    results[1]["model"] |= {"backbone": "resnet32", "parameters": 464144}
    (table,) = by_dataset(results)
    assert plot_methods(table).legend[1][1] == "gcl (resnet32), 464,144 parameters"


def test_groups_say_from_which_epoch_the_last_stage_started():
    raw = make_result(10, picked_on="test")
    assert "started from epoch 40 of stage1" in plot_groups(parse_result(raw)).caption
    assert "before" not in plot_groups(parse_result(raw)).title


def test_groups_show_both_stages_and_n_a_for_none():
    raw = make_result(10)
    raw["few"] = None
    result = parse_result(raw)
    words = texts(plot_groups(result).drawing)
    assert words.count("n/a") == 1
    before = result.stages[0]
    for value in (result.top1.last, result.many, result.medium, before.top1, before.many, before.medium, before.few):
        assert f"{value:.1f}" in words


def test_groups_show_a_third_stage_like_the_others():
    raw = make_result(10, picked_on="val")
    raw["stages"].append({**raw["stages"][-1], "name": "stage3", "top1": 91.0, "picked": None})
    raw["top1"]["last"] = 91.0
    figure = plot_groups(parse_result(raw))
    words = texts(figure.drawing)
    assert figure.title == "Shot groups after stage1, stage2 and stage3"
    assert all(f"{stage['top1']:.1f}" in words for stage in raw["stages"])
    assert {'class="fill all paler"', 'class="fill all pale"'} <= set(
        re.findall('class="fill[^"]*"', str(figure.drawing))
    )
    assert "stage2 started from epoch 40 of stage1." in figure.caption


def test_names_are_escaped():
    raw = make_result(10, class_names=["<script>alert(1)</script>"] * 10)
    for figure in (plot_counts, plot_classes, plot_confusion):
        assert "<script" not in str(figure(parse_result(raw)).drawing)


def test_the_confusion_puts_the_most_frequent_class_first():
    raw = make_result(3, counts=[5, 200, 50], class_names=["rare", "common", "some"])
    words = texts(plot_confusion(parse_result(raw)).drawing)
    assert [word for word in words if word in {"rare", "common", "some"}][::2] == ["common", "some", "rare"]


def test_confusions_are_the_largest_errors_with_their_share():
    raw = make_result(3)
    raw["confusion"] = [[0, 0, 40], [0, 1, 10], [1, 0, 12], [1, 1, 12], [2, 2, 9], [2, 0, 0]]
    found = frequent_confusions(parse_result(raw))
    assert [(error.true, error.predicted, error.count) for error in found] == [(1, 0, 12), (0, 1, 10)]
    assert [error.share for error in found] == [50.0, 20.0]


def test_more_than_a_hundred_classes_have_no_heat_map():
    assert plot_confusion(parse_result(make_result(101))) is None
    assert frequent_confusions(parse_result(make_result(101)))


def test_a_diverged_loss_is_named_not_drawn():
    raw = make_result(10)
    log = make_log(raw)
    log[5]["loss"] = float("nan")
    figure = plot_loss([Epoch.model_validate(line) for line in log])
    assert "1\u00a0epoch the loss was not finite" in figure.caption
    assert "nan" not in str(figure.drawing)


def test_the_caption_says_where_the_best_epoch_was_chosen():
    raw = make_result(10)
    assert plot_accuracy(parse_result(raw), epochs(raw)).caption.endswith("the best epoch, chosen on the test set.")
    raw["top1"]["evaluated_epochs"] = 5
    caption = plot_accuracy(parse_result(raw), epochs(raw)).caption
    assert caption.endswith("the ring marks the best of 5\u00a0evaluated epochs, chosen on the test set.")


@pytest.mark.parametrize(
    "counts", [[7] * 30, [0, 0, *[50] * 30], [1] * 25, [5000, 0, 1], [1], list(range(1, 400))], ids=str
)
def test_odd_counts_can_be_drawn(counts):
    result = parse_result(make_result(len(counts), counts=counts))
    for plot in (plot_counts, plot_classes, plot_groups):
        assert "nan" not in str(plot(result).drawing)


def test_results_with_the_least_that_the_format_promises_can_be_drawn():
    raw = make_result(30)
    least = {key: raw[key] for key in ("format", "method", "top1", "dataset", "protocol")}
    result = parse_result(least | {"stages": [{"name": "stage1"}, {"name": "stage2"}]})
    assert plot_confusion(result) is None
    assert plot_reliability(result) is None
    for plot in (plot_counts, plot_classes, plot_groups):
        assert "<svg" in str(plot(result).drawing)


@pytest.mark.parametrize(("low", "high", "log"), [(0, 100, False), (0, 0.37, False), (1, 5000, True), (3, 40, True)])
def test_ticks_are_round_ordered_and_inside(low, high, log):
    scale = Scale(low, high, 0, 100, log)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
    assert all(first < second for first, second in pairwise(scale(tick) for tick in ticks))
