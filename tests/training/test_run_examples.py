"""The images that a run keeps for its report."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from helpers.runs import run, small_recipe
from tailcloud.data import open_dataset
from tailcloud.evaluation import Predictions
from tailcloud.files import read_json
from tailcloud.runs.examples_file import KINDS, LARGEST_FILE
from tailcloud.serving.load import load
from tailcloud.training.run_examples import (
    SAMPLES,
    SEEN_BYTES,
    SIDE,
    THUMBNAIL_BYTES,
    class_samples,
    errors_of_class,
    least_certain,
    thumbnails,
)

LARGE = 10**9


@pytest.fixture(scope="module")
def kept(finished_run):
    """The images of each kind, with their true and predicted classes and confidences."""
    content = load_file(finished_run / "examples.safetensors")
    names = ("images", "true", "predicted", "confidence")
    kinds = {
        kind: {name: content[name][content["kind"] == place] for name in names} for place, kind in enumerate(KINDS)
    }
    return kinds | {"seen": {"images": content["seen"], "true": content["seen_true"]}}


@pytest.fixture(scope="module")
def scored(finished_run):
    """The test split, and for each image the predicted class and its rank by confidence, computed another way."""
    test, model = open_dataset("digits-lt").test, load(finished_run)
    with torch.no_grad():
        scores = model.classifier(model.transform(torch.from_numpy(test.images))).double().numpy()
    return test, scores.argmax(axis=1)


def naive_worst(counts, per_class):
    """The few-shot classes that are not always right, the worst first; digits-lt has more than none."""
    rare = [c for c in range(len(counts)) if counts[c] < 20 and per_class[c] < 100]
    return sorted(rare, key=lambda c: (per_class[c], counts[c], c))[:8]


def test_a_finished_run_has_the_surest_errors_of_its_worst_classes(finished_run, kept, scored):
    errors, result, (test, said) = kept["worst"], read_json(finished_run / "result.json"), scored
    worst = naive_worst(result["dataset"]["counts"], result["per_class"])
    assert list(dict.fromkeys(errors["true"].tolist())) == worst
    for label in worst:
        mine = errors["images"][errors["true"] == label]
        wrong = [place for place in range(len(said)) if test.labels[place] == label != said[place]]
        assert len(mine) == min(6, len(wrong))
        for picture, other in zip(mine, errors["predicted"][errors["true"] == label], strict=True):
            assert any((picture == test.images[place]).all() and said[place] == other for place in wrong)


def test_a_finished_run_has_confident_errors_and_uncertain_images(kept, scored):
    test, said = scored
    for kind in ("confident", "uncertain"):
        part = kept[kind]
        assert len(part["images"]) == 12
        for picture, true, predicted in zip(part["images"], part["true"], part["predicted"], strict=True):
            same = [place for place in range(len(said)) if (picture == test.images[place]).all()]
            assert any((test.labels[place], said[place]) == (true, predicted) for place in same)
    confident, uncertain = kept["confident"], kept["uncertain"]
    assert (confident["true"] != confident["predicted"]).all()
    assert (np.diff(confident["confidence"]) <= 0).all()
    assert (np.diff(uncertain["confidence"]) >= 0).all()
    assert uncertain["confidence"].max() < confident["confidence"].max()


def test_a_finished_run_has_samples_of_every_class_and_what_the_model_sees(kept):
    train = open_dataset("digits-lt").train
    samples, seen = kept["sample"], kept["seen"]
    counts = np.bincount(train.labels)
    assert np.bincount(samples["true"]).tolist() == [min(3, count) for count in counts]
    for part in (samples, seen):
        for picture, label in zip(part["images"], part["true"], strict=True):
            assert any((picture == image).all() for image in train.images[train.labels == label])
    assert len(set(seen["true"].tolist())) == 4


def test_the_surest_come_first():
    said = Predictions(
        target=np.array([1, 1, 1, 0, 1, 2]),
        predicted=np.array([0, 1, 2, 1, 0, 2]),
        confidence=np.array([0.5, 0.99, 0.9, 0.95, 0.7, 0.0]),
        in_top_k=np.ones(6, dtype=bool),
        top_k=3,
    )
    assert errors_of_class(said, 1).tolist() == [2, 4, 0]
    assert errors_of_class(said, 2).tolist() == []
    assert least_certain(said).tolist() == [0, 4, 2, 3, 1], "confidence 0: the outputs are NaN"


@pytest.mark.parametrize("counts", [[5], [4, 0, 1], [300, 2, 1, 40], [7] * 121, list(range(400, 0, -1))], ids=len)
def test_samples_are_of_their_class_different_and_few(counts):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    chosen = class_samples(labels, np.array(counts))
    assert len(set(chosen.tolist())) == len(chosen) <= SAMPLES
    found, present = np.bincount(labels[chosen], minlength=len(counts)), np.array(counts) > 0
    if present.sum() <= SAMPLES:
        assert (found[present] > 0).all()
    assert found[0] > 0, "the most frequent class"
    assert found[np.flatnonzero(present)[np.array(counts)[present].argmin()]] > 0, "the rarest class"


def test_the_file_of_large_images_with_many_channels_stays_within_its_bound():
    images = np.zeros((200, 512, 384, 9), np.uint8)
    assert thumbnails(images, SIDE, THUMBNAIL_BYTES).nbytes <= THUMBNAIL_BYTES
    assert thumbnails(images[:4], 224, SEEN_BYTES).nbytes <= SEEN_BYTES
    assert THUMBNAIL_BYTES + SEEN_BYTES < 2_200_000 < LARGEST_FILE


def test_nothing_is_kept_where_the_recipe_says_so(tmp_path):
    run(tmp_path / "run", small_recipe({"logging": {"examples": False}}, name="digits-lt/ce"))
    assert not (tmp_path / "run" / "examples.safetensors").exists()


@pytest.mark.parametrize(("height", "width"), [(128, 64), (256, 192), (640, 10), (65, 65)])
def test_thumbnails_are_small_and_keep_their_shape(height, width):
    images = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    small = thumbnails(images, SIDE, LARGE)
    assert max(small.shape[1:3]) == SIDE
    assert small.shape[1] / small.shape[2] == pytest.approx(height / width, rel=0.4)
    assert small.mean() == pytest.approx(images.mean(), abs=2)


def test_a_thumbnail_is_the_mean_of_what_it_stands_for():
    image = np.random.default_rng(0).integers(0, 256, (1, 128, 128, 3), dtype=np.uint8)
    expected = image.astype(float).reshape(1, 64, 2, 64, 2, 3).mean(axis=(2, 4))
    assert np.abs(thumbnails(image, SIDE, LARGE) - expected).max() <= 0.5


def test_small_images_stay_as_they_are():
    images = np.zeros((2, 8, 8, 1), np.uint8)
    assert thumbnails(images, SIDE, LARGE) is images
