"""What a stage changed, in words: a trade, a gain, a loss, or nothing beyond chance."""

import pytest

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, write_run
from tailcloud.reporting import write_report
from tailcloud.reporting.stage_changes import changes_in_words
from tailcloud.runs.result import parse_result


def changed(top1, balanced, error=1.0, **groups):
    """A result whose second stage changed the figures by so many points, each with that error."""

    def change(points):
        return {"before": 50.0, "after": 50.0 + points, "error": error}

    content = make_result()
    content["stages"][1]["change"] = {
        "since": "stage1",
        "top1": change(top1),
        "balanced_accuracy": change(balanced),
        **({"groups": {name: change(points) for name, points in groups.items()}} if groups else {}),
    }
    return content


def words(*figures, **more):
    (sentence,) = changes_in_words(parse_result(changed(*figures, **more)))
    return sentence.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("top1", "balanced", "expected"),
    [
        (-3.1, 4.5, "Stage 2 gives 3.1 points of top-1 for 4.5 points of balanced accuracy."),
        (4.5, -3.1, "Stage 2 gives 3.1 points of balanced accuracy for 4.5 points of top-1."),
        (
            -17.0,
            -0.5,
            "Stage 2 loses 17.0 points of top-1 and makes no difference to balanced accuracy beyond chance "
            "(−0.5 points, 95 %: −2.5 to +1.5).",
        ),
        (
            -17.0,
            0.5,
            "Stage 2 loses 17.0 points of top-1 and makes no difference to balanced accuracy beyond chance "
            "(+0.5 points, 95 %: −1.5 to +2.5).",
        ),
        (2.5, 3.0, "Stage 2 gains 2.5 points of top-1 and gains 3.0 points of balanced accuracy."),
        (
            -0.3,
            0.4,
            "Stage 2 makes no difference beyond chance: top-1 −0.3 points, 95 %: −2.3 to +1.7; balanced accuracy "
            "+0.4 points, 95 %: −1.6 to +2.4.",
        ),
    ],
)
def test_the_trade_is_said_in_words(top1, balanced, expected):
    assert words(top1, balanced) == expected


def test_a_group_that_a_stage_ruins_is_named_though_the_whole_hardly_changes():
    assert words(4.2, 4.3, error=3.1, many=-98.0, medium=1.0, few=50.0) == (
        "Stage 2 changes neither top-1 (+4.2 points, 95 %: −1.9 to +10.3) nor balanced accuracy (+4.3 points, 95 %: "
        "−1.8 to +10.4) beyond chance, but many-shot falls by 98.0 points, few-shot gains 50.0."
    )
    assert words(0.0, 0.0, few=-9.0).endswith("beyond chance, but few-shot falls by 9.0 points.")


@pytest.mark.parametrize(
    ("top1", "balanced", "expected"),
    [
        (-3.1, 4.5, "gives 3.1 points of top-1 for 4.5 points of balanced accuracy; many-shot falls by 6.0 points"),
        (
            2.5,
            3.0,
            "gains 2.5 points of top-1 and gains 3.0 points of balanced accuracy; many-shot falls by 6.0 points",
        ),
        (2.5, 0.5, "beyond chance (+0.5 points, 95 %: −1.5 to +2.5); many-shot falls by 6.0 points"),
    ],
)
def test_groups_follow_what_happens_to_the_whole(top1, balanced, expected):
    assert f"{expected}, few-shot gains 8.0." in words(top1, balanced, many=-6.0, medium=-1.9, few=8.0)


@pytest.mark.parametrize(
    ("points", "groups", "expected"),
    [
        (4.4, {"few": 9.0}, "Stage 2 gains 4.4 points of top-1; few-shot gains 9.0 points."),
        (1.4, {}, "Stage 2 makes no difference beyond chance: top-1 +1.4 points, 95 %: −0.6 to +3.4."),
        (
            1.4,
            {"few": 9.0},
            "Stage 2 does not change top-1 (+1.4 points, 95 %: −0.6 to +3.4) beyond chance, but few-shot gains 9.0 "
            "points.",
        ),
    ],
)
def test_balanced_accuracy_is_not_said_again_where_test_images_are_balanced(points, groups, expected):
    assert words(points, points, **groups) == expected


def test_groups_within_chance_are_not_named():
    assert words(-0.3, 0.4, many=-1.9, few=1.9) == words(-0.3, 0.4)


def test_the_page_of_a_run_has_the_sentence(tmp_path):
    page = write_report([write_run(tmp_path / "run", changed(0.1, 0.2, many=-9.0))])
    assert "beyond chance, but many-shot falls by 9.0 points." in Page(page.read_text(encoding="utf-8")).text


def test_older_results_say_nothing():
    assert list(changes_in_words(parse_result(make_result()))) == []
