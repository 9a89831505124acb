"""result.json: one schema writes and reads it, and refuses what is not a result."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from helpers.synthetic_runs import make_result
from tailcloud.errors import TailcloudError
from tailcloud.runs.result import Result, parse_result, read_result, write_result

RECORDS = sorted((Path(__file__).parents[2] / "benchmarks" / "results" / "runs").glob("*.json"))
GROUPS = ("many", "medium", "few")

figure = st.none() | st.floats()
text = st.text(st.characters(codec="utf-8"), max_size=8)
count = st.integers(0, 2**40)
plain = st.recursive(
    st.none() | st.booleans() | count | st.floats(allow_nan=False, allow_infinity=False) | text, st.lists, max_leaves=3
)
table = st.dictionaries(text, plain, max_size=3)


def optional(required, **fields):
    """A table with these keys, of which some may be missing."""
    return st.fixed_dictionaries(required, optional=fields)


bins = st.lists(optional({"count": count}, confidence=figure, accuracy=figure), max_size=2)
calibration = optional({}, ece=figure, reliability=bins)
mix = optional({}, plain=figure, adjusted=figure)


def scores(classes):
    names = ("top5", "balanced_accuracy", "macro_f1", *GROUPS, "ece")
    per_class = st.lists(figure, min_size=classes, max_size=classes)
    return {**dict.fromkeys(names, figure), "top_k": count, "per_class": per_class, "reliability": bins}


@st.composite
def contents(draw):
    """What a result.json may hold, with keys in any order."""
    classes = draw(st.integers(1, 3))
    lists = {"min_size": classes, "max_size": classes}
    index = st.integers(0, classes - 1)
    best = optional({"epoch": count, "on": text}, top1=figure)
    picked = optional({"epoch": count, "on": text}, top1=figure, **scores(classes))
    stage = optional(
        {"name": text}, epochs=count, top1=figure, best=best, executor=text, kernels=text, seconds=figure,
        picked=st.none() | picked, **scores(classes),
    )  # fmt: skip
    dataset = optional(
        {"spec": text, "fingerprint": text, "counts": st.lists(count, **lists).filter(any)},
        test_counts=st.lists(count, **lists), class_names=st.lists(text, **lists),
        images=st.dictionaries(text, count), shape=st.lists(count),
    )  # fmt: skip
    both = optional({}, before=st.none() | calibration, after=st.none() | calibration)
    calibrated = optional(
        {}, temperature=figure, fitted_on=st.none() | text, images=count, ece=figure, reliability=bins,
        before=calibration, groups=st.dictionaries(st.sampled_from(GROUPS), both),
    )  # fmt: skip
    top1 = optional(
        {"last": figure}, best=figure, best_on=text, best_epoch=st.fixed_dictionaries({"stage": text, "epoch": count})
    )
    content = optional(
        {
            "method": text,
            "top1": top1,
            "dataset": dataset,
            "protocol": optional({"seed": count}, selection=text, split=st.floats(0, 1), every=count),
        },
        **scores(classes),
        confusion=st.lists(st.tuples(index, index, count).map(list), max_size=3),
        picked=picked,
        stages=st.lists(stage, max_size=2),
        model=optional({}, backbone=text, head=text, width=st.floats(0.1, 4), parameters=count, flops=count | figure),
        recipe=st.none() | table,
        remarks=st.lists(text, max_size=2),
        seconds=figure,
        machine=table,
        **dict.fromkeys(("device", "version", "command"), text),
        **dict.fromkeys(("commit", "finished"), st.none() | text),
        calibrated=calibrated,
        priors=optional({}, assumed=text, forward=mix, uniform=mix, backward=mix),
    )
    return draw(content)


@given(contents())
def test_what_was_written_is_read_and_written_to_the_same_bytes(tmp_path_factory, content):
    first, second = (tmp_path_factory.mktemp("result") / name for name in ("first.json", "second.json"))
    result = Result.create(content)
    write_result(first, result)
    again = read_result(first)
    write_result(second, again)
    assert first.read_bytes() == second.read_bytes()
    assert again == result


@given(contents())
def test_a_written_result_has_the_content_that_it_was_made_of(content):
    assert Result.create(content).content() == without_nan(content)


def without_nan(value):
    """NaN and infinity are no measurements; numbers, keys and everything else stay."""
    if isinstance(value, dict):
        return {key: list(map(tuple, each)) if key == "confusion" else without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize("path", RECORDS[::10], ids=lambda path: path.stem)
def test_a_committed_record_is_written_to_the_same_bytes(path, tmp_path):
    write_result(tmp_path / "again.json", read_result(path))
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_every_committed_record_has_only_keys_of_the_schema():
    assert len(RECORDS) > 100
    for path in RECORDS:
        Result.create({key: value for key, value in json.loads(path.read_text()).items() if key != "format"})


def valid():
    content = make_result(10, picked_on="val")
    return {key: value for key, value in content.items() if key not in {"format", "a key of the future"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(topl=90.0), "unknown keys: topl"),
        (lambda content: content["stages"][0].update(presicion="float32"), "unknown keys: presicion"),
        (lambda content: content["calibrated"]["groups"]["many"]["after"].update(mce=1.0), "unknown keys: mce"),
        (lambda content: content.update(few="many"), "valid number"),
        (lambda content: content.update(top1=90.0), "valid dictionary"),
        (lambda content: content["protocol"].pop("seed"), "Field required"),
        (lambda content: content["protocol"].update(seed=None), "it has no seed, and is no average of runs"),
        (lambda content: content["per_class"].pop(), "one entry for each of the 10 classes"),
        (lambda content: content["dataset"].update(class_sizes=[9] * 11), "one entry for each of the 10 classes"),
        (lambda content: content["confusion"].append([0, 10, 1]), "a class that does not exist"),
    ],
)
def test_a_result_with_a_wrong_field_cannot_be_made_and_so_not_written(change, message):
    content = valid()
    assert Result.create(content).content().keys() == content.keys()
    change(content)
    with pytest.raises(ValidationError, match=message):
        Result.create(content)


def test_a_reader_ignores_keys_of_other_versions_and_has_none_for_missing_ones():
    content = valid() | {"a key of the future": 1}
    content["stages"][0]["another"] = 2
    for key in ("few", "picked", "calibrated", "commit"):
        del content[key]
    result = parse_result(content)
    assert (result.few, result.picked, result.calibrated, result.commit) == (None, None, None, None)
    assert result.stages[0].executor is None
    assert "a key of the future" not in result.content()


def test_the_sentence_on_a_damaged_result_names_the_file_and_the_first_problem(tmp_path):
    content = {"format": 1, **valid()}
    del content["protocol"]["seed"]
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(TailcloudError, match=r'result\.json is damaged .*\("protocol\.seed": field required\)'):
        read_result(tmp_path / "result.json")
