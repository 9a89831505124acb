"""What the page of a run says first, and how it deals with few test images, few classes and stages without training."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, with_test_counts, write_all_examples, write_run
from tailcloud.confidence_interval import wilson_interval
from tailcloud.reporting import write_report
from tailcloud.reporting.labels import data_name
from tailcloud.runs.examples_file import read_run_examples


def text_of(run):
    return Page(write_report([run]).read_text(encoding="utf-8")).text.replace("\u00a0", " ")


def page_text(tmp_path, result):
    return text_of(write_run(tmp_path / "run", result))


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("clothing", "clothing"),
        ("/data/blood cells/", "blood cells"),
        ("../beetles/train.csv", "beetles"),
        ("moths.npz", "moths"),
        ("cifar10-lt:100", "cifar10-lt:100"),
        ("C:\\photos\\birds", "birds"),
        ("/", "/"),
        ("train.csv", "train"),
    ],
)
def test_data_are_called_by_their_folder_or_list(spec, name):
    assert data_name(spec) == name


def test_the_title_says_what_the_model_is_for(tmp_path):
    result = make_result(10, spec="/data/beetles", class_names=[f"beetle {place}" for place in range(10)])
    page = write_report([write_run(tmp_path / "run", result)]).read_text(encoding="utf-8")
    title = re.search("<title>(.*)</title>", page).group(1).replace("\u00a0", " ")
    assert title.startswith("beetles, 10 classes: ")
    assert "gcl" not in title
    assert "It tells apart beetle 0, beetle 1, beetle 2, beetle 3, beetle 4 and 5 more." in page
    assert "by gcl, seed 0" in page


def test_a_head_on_features_was_trained_in_some_time(tmp_path):
    result = make_result(10) | {"recipe": {"stage1": {"views": 1, "train": "head"}}, "seconds": 12.3}
    assert "its head trained on features of 331 images of 10 classes in 12.3 s by gcl" in page_text(tmp_path, result)


def few_shot(few):
    result = with_test_counts(make_result(10)) | {"few": few}
    result["top1"]["last"] = 90.0
    return result


def test_a_headline_has_few_shot_classes_if_they_differ_by_more_than_chance(tmp_path):
    assert "classified correctly; 70.0 % in few-shot classes" in page_text(tmp_path / "far", few_shot(70.0))
    assert "% in few-shot classes" not in page_text(tmp_path / "near", few_shot(88.0))


def test_accuracies_of_few_images_have_their_interval(tmp_path):
    result = few_shot(70.0)
    text = page_text(tmp_path, result)
    assert f"Top-1, last epoch 90.0 % 95 %: {wilson_interval(90.0, 500).text}; of all".replace("\u00a0", " ") in text
    few = sum(count < 20 for count in result["dataset"]["counts"])
    interval = wilson_interval(70.0, 50 * few).text
    assert f"Few-shot 70.0 % 95 %: {interval}; {few} classes".replace("\u00a0", " ") in text
    assert "class group training images test images after stage1 accuracy 95 % interval change since stage1" in text
    for index in (0, 9):
        value, count = result["per_class"][index], result["dataset"]["counts"][index]
        before = result["stages"][0]["per_class"][index]
        change = f"{value - before:+.1f}".replace("-", "−")
        row = f"{count} 50 {before:.1f} {value:.1f} {wilson_interval(value, 50).text} {change}"
        assert row.replace("\u00a0", " ") in text


def test_accuracies_of_many_images_have_none(tmp_path):
    result = few_shot(70.0)
    result["dataset"]["test_counts"] = [5000] * 10
    assert "95 %: " not in re.sub("Accuracy per class.*", "", page_text(tmp_path, result))


@pytest.mark.parametrize(("classes", "shown"), [(2, False), (6, False), (7, True)])
def test_top_5_of_few_classes_is_left_out(tmp_path, classes, shown):
    assert ("among the 5 most likely" in page_text(tmp_path, make_result(classes) | {"top_k": 5})) == shown


def untrained(result, **scores):
    return {**result["stages"][-1], "name": "stage3", "epochs": 0, "seconds": 0.4, **scores}


def test_a_stage_that_did_nothing_is_not_shown_as_trained(tmp_path):
    result = make_result(10, stages=1)
    result["stages"].append(untrained(result))
    text = page_text(tmp_path, result)
    assert "after stage1" not in text
    assert "stages stage1, stage3 (no training) epochs 60 trained" in text
    assert "time of each stage 4.2 s finished" in text


def test_a_stage_without_training_that_changed_the_model_says_so(tmp_path):
    result = make_result(10)
    result["stages"].append(untrained(result, top1=12.3, per_class=[50.0] * 10))
    text = page_text(tmp_path, result | {"per_class": [50.0] * 10})
    assert "Shot groups after stage1, stage2 and stage3 (no training)" in text


def test_the_page_shows_images_of_every_kind(tmp_path):
    result = make_result(10, shape=[224, 224, 3], fit="crop", keep=0.875, native_side=1728)
    run = write_run(tmp_path / "run", result)
    write_all_examples(run, 10, side=224)
    page = write_report([run]).read_text(encoding="utf-8")
    text = Page(page).text.replace("\u00a0", " ")
    assert "What the model sees: 224 × 224 pixels" in text
    assert "The shorter sides of the image files have a median of 1,728 pixels." in text
    assert "a centre crop with the aspect ratio of the model's images, scaled, 87.5% of each side." in text
    assert "Sample images of all 10 classes" in text
    assert re.search(r"Most confident errors .*? % 0 → 1 .*? % 1 → 2 Wrong with the highest confidence", text)
    assert re.search(r"Least certain images .*? % 0 ✓ .*? % 9 ✓ The lowest confidence", text)
    assert page.count('alt="A training image of ') == 12
    assert page.count("data:image/jpeg") == 2, "large photographs are JPEG files, small ones show their pixels"


def test_a_run_that_kept_no_images_shows_none(tmp_path):
    text = page_text(tmp_path, make_result(10))
    for words in ("What the model sees", "Sample images", "Most confident errors", "Least certain"):
        assert words not in text


def test_an_older_file_of_examples_has_the_errors_of_the_worst_classes(tmp_path):
    run = write_run(tmp_path / "run", make_result(10))
    content = write_all_examples(run, 10)
    old = {name: content[name] for name in ("images", "true", "predicted")}
    save_file(old, run / "examples.safetensors", {"format": "1"})
    examples = read_run_examples(run / "examples.safetensors", 10)
    assert (examples.kind == 0).all()
    assert len(examples.seen) == 0
    assert "What the model sees" not in text_of(run)


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": np.full(15, 4)},
        {"confidence": np.full(15, np.nan, np.float32)},
        {"confidence": np.zeros(3, np.float32)},
        {"seen": np.zeros((5, 8, 8, 3), np.uint8)},
        {"seen": np.zeros((2, 400, 400, 3), np.uint8)},
        {"seen_true": np.array([0, 10])},
        {"another": np.zeros(3)},
    ],
    ids=" ".join,
)
def test_foreign_kinds_are_refused_by_a_sentence(tmp_path, damage):
    run = write_run(tmp_path / "run", make_result(10))
    save_file(write_all_examples(run, 10) | damage, run / "examples.safetensors")
    with pytest.raises(Exception, match=r"examples\.safetensors is damaged .* delete it"):
        write_report([run])


def test_a_finished_run_says_how_its_images_are_read(finished_run):
    data = json.loads((finished_run / "result.json").read_text())["dataset"]
    assert (data["fit"], data["keep"], data["native_side"]) == ("squash", 1.0, None)
    assert len(load_file(finished_run / "examples.safetensors")["seen"]) == 4
