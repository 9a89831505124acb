"""What a stage changed, in words: a trade, a gain, a loss, or nothing beyond chance."""

import pytest

from helpers.synthetic_runs import make_result
from tailcloud.reporting.stage_changes import changes_in_words
from tailcloud.runs.result import parse_result


def words(top1, balanced):
    content = make_result()
    changes = {"top1": top1, "balanced_accuracy": balanced}
    content["stages"][1]["change"] = {
        "since": "stage1",
        **{name: {"before": 50.0, "after": 50.0 + points, "error": 1.0} for name, points in changes.items()},
    }
    (sentence,) = changes_in_words(parse_result(content))
    return sentence


@pytest.mark.parametrize(
    ("top1", "balanced", "expected"),
    [
        (-3.1, 4.5, "Stage 2 gives 3.1 points of top-1 for 4.5 points of balanced accuracy."),
        (4.5, -3.1, "Stage 2 gives 3.1 points of balanced accuracy for 4.5 points of top-1."),
        (
            -17.0,
            -0.5,
            "Stage 2 loses 17.0 points of top-1 and makes no difference to balanced accuracy beyond chance "
            "(−0.5 ± 1.0 points).",
        ),
        (2.5, 3.0, "Stage 2 gains 2.5 points of top-1 and gains 3.0 points of balanced accuracy."),
        (
            -0.3,
            0.4,
            "Stage 2 makes no difference beyond chance: top-1 −0.3 ± 1.0 points, balanced accuracy +0.4 ± 1.0.",
        ),
    ],
)
def test_the_trade_is_said_in_words(top1, balanced, expected):
    assert words(top1, balanced) == expected


def test_older_results_say_nothing():
    assert list(changes_in_words(parse_result(make_result()))) == []
