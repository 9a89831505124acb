"""The model card: the numbers of the result, correct limits, and untrusted text without effect."""

import json
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.reporting import labels
from tailcloud.reporting.card import escape_markdown, model_card, write_card


@pytest.fixture
def run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def change(run, file, alter):
    content = json.loads((run / file).read_text())
    alter(content)
    (run / file).write_text(json.dumps(content))


def test_the_card_has_the_figures_of_the_result(run):
    card, result = model_card(run), json.loads((run / "result.json").read_text())
    assert card.startswith("# Model card: gcl on digits-lt\n")
    assert f"| top-1 | {result['top1']['last']:.1f} | 10 | 500 |" in card
    assert f"fewer than 20 training images | {result['few']:.1f} | 5 | 250 |" in card
    assert f"| all classes | {result['ece']:.1f} |" in card
    assert f"| 9 | 2 | 50 | {result['per_class'][9]:.1f} |" in card
    assert "331, 0, 500" in card
    assert result["dataset"]["fingerprint"] in card
    assert "licence | unknown" in card
    assert "- stage1: 3 epochs of the whole network; stage2: 2 epochs of the head." in card.replace("\u00a0", " ")
    assert "No temperature was fitted" in card


def test_the_confidence_interval_is_that_of_a_binomial(run):
    def alter(result):
        result["top1"]["last"] = 90.0

    change(run, "result.json", alter)
    card = model_card(run).replace("\u00a0", " ")
    assert "With 500 test images, the 95 % confidence interval of top-1 is 87.1 – 92.3 %" in card, "Wilson's interval"


def test_classes_that_were_hardly_tested_are_counted(run):
    def alter(result):
        result["dataset"]["test_counts"] = [0, 3, 9, 10, 50, 50, 50, 50, 50, 50]

    change(run, "result.json", alter)
    card = model_card(run)
    assert "1 class without a test image" in card.replace("\u00a0", " ")
    assert re.search(r"balanced accuracy \(mean over classes\) \| [\d.]+ \| 9 \| 322 \|", card)
    assert re.search(r"more than 100 training images \| [\d.]+ \| 0 \| 0 \|", card)
    assert "2 classes with fewer than 10 test images" in card.replace("\u00a0", " ")


def test_weights_that_were_chosen_have_their_own_figures(run):
    def alter(result):
        result["picked"] = {"epoch": 4, "on": "test", "top1": 12.3, "few": 4.5}

    change(run, "result.json", alter)
    card = model_card(run)
    assert "| top-1 | 12.3 | 10 |" in card
    assert "| 4.5 | 5 |" in card
    assert "chosen on the test set, so the accuracies below are optimistic" in card


def test_a_temperature_is_shown_with_what_it_did(run):
    groups = {"few": {"before": {"ece": 31.0}, "after": {"ece": 7.0}}, "many": {"before": None, "after": None}}

    def alter(result):
        result["calibrated"] = {"ece": 6.0, "before": {"ece": 30.0}, "groups": groups, "fitted_on": "val"}

    change(run, "result.json", alter)
    change(run, "model.json", lambda about: about["calibration"].update(temperature=1.25, fitted_on="val"))
    card = model_card(run)
    assert "a temperature of 1.250, fitted on the validation set" in card
    assert "| all classes | 30.0 | 6.0 |" in card
    assert "| few-shot classes | 31.0 | 7.0 |" in card
    assert "| many-shot classes | n/a | n/a |" in card


HOSTILE = [
    "<script>alert(1)</script>",
    "a\n\n# A heading\n\n| x |",
    "[click](javascript:alert(1))",
    "![](http://example.org/spy.png)",
    "`code` **bold** _low_ $x$ @someone",
    "http://example.org",
    "\u202egnp.exe",
    "x" * 100_000,
]


@pytest.mark.parametrize("words", HOSTILE, ids=range(len(HOSTILE)))
def test_untrusted_text_is_shown_and_does_nothing(run, words):
    before = model_card(run)

    def alter(result):
        result["dataset"]["class_names"][9] = result["dataset"]["spec"] = result["method"] = words
        result["remarks"] = [words]
        result["command"] = result["version"] = result["commit"] = words

    change(run, "result.json", alter)
    card = model_card(run)
    assert re.findall(r"^#.*", card, re.MULTILINE)[1:] == re.findall(r"^#.*", before, re.MULTILINE)[1:]
    outside = "\n".join(line for line in card.splitlines() if not line.startswith("    "))
    assert "<script" not in outside
    assert "http://" not in outside
    assert not re.search(r"(?<!\\)\[(click)?\]", outside)
    assert "\u202e" not in card
    assert max(map(len, outside.splitlines())) < 3000


@given(st.text())
def test_plain_text_is_one_line_without_markup(text):
    line = escape_markdown(text)
    assert len(line.splitlines()) <= 1
    assert "<" not in line
    assert not re.search(r"(?<!\\)(\\\\)*[|`\[]", line)


def test_a_card_that_is_there_is_replaced_by_force_alone(run, tmp_path):
    assert write_card(run) == run / "model-card.md"
    (run / "model-card.md").write_text("completed by hand")
    with pytest.raises(UsageError, match="exists already"):
        write_card(run)
    assert write_card(run, tmp_path / "other.md").read_text() == model_card(run)
    write_card(run, force=True)
    assert "Model card" in (run / "model-card.md").read_text()


def test_a_card_needs_a_result(run):
    (run / "result.json").unlink()
    with pytest.raises(TailcloudError, match="no finished run"):
        model_card(run)


@pytest.mark.parametrize("between", [0, 1], ids=["at once", "behind another head transform"])
def test_a_last_stage_without_epochs_has_the_weights_that_were_chosen_before_it(run, between):
    def alter(result):
        trained = {**result["stages"][-1], "picked": {"epoch": 4, "on": "val", "top1": 12.3}}
        unchanged = [{**result["stages"][-1], "name": f"change{k}", "epochs": 0} for k in range(between + 1)]
        result["stages"] = [*result["stages"][:-1], trained, *unchanged]

    change(run, "result.json", alter)
    card = model_card(run)
    assert "Weights: epoch 4 of stage2, chosen on the validation set." in card
    assert "change0: no epochs, only a head transform" in card


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"train": "all"}, "the whole network"),
        ({"train": "head", "views": 0}, "the head"),
        ({"train": "head", "views": 1}, "the head, on features of the frozen network"),
        ({"train": "backbone.blocks.6+head"}, "backbone.blocks.6, head"),
        ({}, ""),
    ],
)
def test_what_a_stage_trains_in_words(settings, words):
    assert labels.trained_part({"stage1": settings}, "stage1") == words
    assert labels.trained_part(None, "stage1") == ""
