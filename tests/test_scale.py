"""100,000 classes and a million labels: no Python per class or label, no array of labels × classes, pages that end.

Nothing here looks at a clock. ``python_steps`` counts the bytecodes that a piece of work takes: where they are the same
for ten times as many classes and labels, there is no Python loop over either.
"""

import gc
import json
import sys

import numpy as np
import pytest
import torch
from measurement import host_peak, tensor_peak

from helpers.runs import Watcher
from helpers.synthetic_runs import make_result, write_run
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data import Dataset, Split, hold_out
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.evaluation import Predictions, confusion, predict, predict_variants, summarise
from tailcloud.losses import LOSSES
from tailcloud.profile import Profile, class_order, cloud_sizes, fingerprint
from tailcloud.recipe import load_recipe
from tailcloud.reporting import write_report
from tailcloud.runs.folder import RunFolder
from tailcloud.sampling import WEIGHTS, make_sampler, sample_weights
from tailcloud.training.loop import train

CLASSES, LABELS = 100_000, 1_000_000
CPU = torch.device("cpu")


def python_steps(work):
    """Bytecodes that the interpreter executes, outside of the garbage collector; the first time does not count."""
    steps = 0

    def watch(frame, event, _):
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return watch

    work()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return steps


def some_labels(classes=CLASSES, labels=LABELS):
    """Every class occurs; low numbers more often."""
    random = np.random.default_rng(0)
    many = (classes * random.random(labels - classes) ** 2).astype(np.int64)
    return random.permutation(np.concatenate([np.arange(classes), many]))


def some_predictions(labels, classes):
    random = np.random.default_rng(1)
    right = random.random(len(labels)) < 0.5
    predicted = np.where(right, labels, random.integers(0, classes, len(labels)))
    return Predictions(labels, predicted, random.random(len(labels)), right, 5)


def profile_all(labels, classes):
    profile = Profile(np.bincount(labels, minlength=classes), ["name"] * classes)
    return profile.ratio, profile.groups, profile.remarks(), cloud_sizes(profile.counts), fingerprint(labels)


def weigh_all(labels, classes):
    return [sample_weights(name, np.bincount(labels, minlength=classes)) for name in WEIGHTS]


def draw_all(labels, classes):
    for name in WEIGHTS:
        make_sampler(name, labels, classes).draw(np.random.default_rng(0))


def plan_epoch(labels, classes):
    data = ResidentImages(Split(np.zeros((len(labels), 1, 1, 1), np.uint8), labels), CPU)
    transform, sampler = Normalise([0.0], [1.0]), make_sampler("cb", labels, classes)
    return ResidentLoader(
        data, sampler, transform, batch=64, augment=Augment(crop_padding=4, flip=True), mixup=1.0
    ).plan(0)


def measure_all(labels, classes):
    said = some_predictions(labels, classes)
    return summarise(said, np.bincount(labels, minlength=classes)), confusion(said, classes)


def lose_all(labels, classes):
    for make in LOSSES.values():
        loss = make(np.bincount(labels, minlength=classes))
        output = torch.rand(4, classes, requires_grad=True)
        loss(output, torch.from_numpy(labels[:4])).backward()


WORKS = [profile_all, weigh_all, draw_all, plan_epoch, measure_all, lose_all]


@pytest.mark.parametrize("work", WORKS)
def test_no_python_loop_over_classes_or_labels(work):
    few, many = some_labels(200, 2_000), some_labels(2_000, 20_000)
    assert python_steps(lambda: work(many, 2_000)) < python_steps(lambda: work(few, 200)) + 900


def test_the_measurement_sees_a_loop():
    few, many = ([label for label in range(classes)] for classes in (200, 2_000))  # noqa: C416
    steps = [python_steps(lambda labels=labels: {label for label in labels}) for labels in (few, many)]  # noqa: C416
    assert steps[1] > steps[0] + 1_800


@pytest.mark.parametrize("work", [profile_all, weigh_all, draw_all, plan_epoch, measure_all])
def test_memory_is_linear_in_labels_and_classes(work):
    labels = some_labels()
    assert host_peak(lambda: work(labels, CLASSES)) < 100 * (LABELS + CLASSES)


def test_the_order_of_classes_is_that_of_a_stable_sort():
    for classes in (10, 1 << 16, (1 << 16) + 1, CLASSES):
        labels = some_labels(classes, 2 * classes)
        assert np.array_equal(class_order(labels, classes), np.argsort(labels, kind="stable"))


@pytest.mark.parametrize("name", WEIGHTS)
def test_samplers_reach_every_class(name):
    labels = some_labels()
    drawn = labels[make_sampler(name, labels, CLASSES).draw(np.random.default_rng(0))]
    assert len(drawn) == LABELS
    counts, seen = (np.bincount(values, minlength=CLASSES) for values in (labels, drawn))
    masses = counts * sample_weights(name, counts)
    halves = [values[: CLASSES // 2].sum() / values.sum() for values in (seen, masses)]
    assert halves[0] == pytest.approx(halves[1], abs=0.002)
    assert drawn.max() > 0.99 * CLASSES


def test_predictions_hold_one_batch_of_logits_at_a_time():
    classes, rows, batches = 20_000, 16, 8
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, classes), 0)
    batch = Batch(torch.rand(rows, 1, 1, 1), torch.randint(classes, (rows,)))
    one, eight = (tensor_peak(lambda n=n: predict(model, [batch] * n, 30.0), CPU) for n in (1, batches))
    assert eight < one + 0.1 * 4 * rows * classes


def test_outputs_read_in_many_ways_take_no_more_memory_than_in_two():
    classes, rows = 20_000, 16
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, classes), 0)
    batch = Batch(torch.rand(rows, 1, 1, 1), torch.randint(classes, (rows,)))
    ways = [(30.0, None), *[(20.0, torch.zeros(classes, dtype=torch.float64))] * 5]
    two, six = (tensor_peak(lambda n=n: predict_variants(model, [batch] * 4, ways[:n]), CPU) for n in (2, 6))
    assert six < two + 0.1 * 4 * rows * classes


def test_figures_of_100_000_classes():
    labels = some_labels()
    said = some_predictions(labels, CLASSES)
    figures = summarise(said, np.bincount(labels, minlength=CLASSES))
    right = said.predicted == labels
    assert figures["top1"] == pytest.approx(100 * right.mean())
    assert len(figures["per_class"]) == CLASSES
    for one in (0, 1, CLASSES - 1):
        assert figures["per_class"][one] == pytest.approx(100 * right[labels == one].mean())
    assert len(json.dumps(figures)) < 3_000_000


def test_very_many_confusions_are_cut_to_the_most_frequent_errors():
    target, predicted = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 2, 0, 2])
    said = Predictions(target, predicted, np.ones(9), target == predicted, 3)
    assert confusion(said, 3, limit=5) == [[0, 0, 2], [0, 1, 2], [1, 2, 3], [2, 0, 1], [2, 2, 1]]
    assert confusion(said, 3, limit=4) == [[0, 1, 2], [1, 2, 3], [2, 0, 1]]
    assert confusion(said, 3, limit=2) == [[0, 1, 2], [1, 2, 3]]
    assert len(confusion(some_predictions(some_labels(), CLASSES), CLASSES)) == 100_000


def large_result(classes):
    """A plausible result of many classes, where not all confusions are recorded."""
    labels = np.arange(2 * classes) % classes
    said, counts = some_predictions(labels, classes), np.linspace(500, 1, classes).astype(int).tolist()
    figures, result = summarise(said, counts), make_result(10)
    result |= {key: value for key, value in figures.items() if key != "top1"}
    result["stages"] = [stage | figures for stage in result["stages"]]
    result["confusion"] = [[7, 8, 1]]
    names = [f"class {number}" for number in range(classes)]
    result["dataset"] |= {"counts": counts, "class_names": names, "test_counts": [2] * classes}
    return result


def test_the_page_of_very_many_classes_ends(tmp_path):
    page = write_report([write_run(tmp_path / "run", large_result(25_000))]).read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    assert "One in 3 of 25,000\u00a0classes in numbers" in page
    assert "Each dot is one class in 3," in page
    assert "50.0\u00a0%" in page  # one of the two test images of class 7


@pytest.mark.filterwarnings("ignore::tailcloud.errors.TailcloudWarning")  # most classes are absent
def test_a_run_with_100_000_classes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (96, 4, 4, 1), dtype=np.uint8)
    split = Split(images, np.arange(96) * 1000)
    dataset = Dataset("many-classes", split, split, [str(number) for number in range(CLASSES)], [0.5], [0.5])
    short = {"width": 0.25}, {"epochs": 1}
    recipe = load_recipe("digits-lt/gcl", [{"model": short[0], "stage1": short[1], "stage2": short[1]}])
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe, "tailcloud train")
    result = train(recipe, hold_out(dataset, 0.0), folder, CPU, Watcher())
    assert len(result.per_class) == CLASSES
    assert sum(value is not None for value in result.per_class) == 96
    assert folder.result_file.stat().st_size < 12_000_000
    assert write_report([folder.path]).stat().st_size < 2_000_000
