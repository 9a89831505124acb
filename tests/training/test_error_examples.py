"""The wrong test images that a run keeps for its report."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from helpers.runs import run, small_recipe
from tailcloud.data import open_dataset
from tailcloud.evaluation import Predictions
from tailcloud.files import read_json
from tailcloud.serving.load import load
from tailcloud.training.error_examples import SIDE, most_confident_errors, thumbnails


def naive_worst(counts, per_class):
    """The few-shot classes that are not always right, the worst first; digits-lt has more than none."""
    rare = [c for c in range(len(counts)) if counts[c] < 20 and per_class[c] < 100]
    return sorted(rare, key=lambda c: (per_class[c], counts[c], c))[:8]


def test_a_finished_run_has_the_surest_errors_of_its_worst_classes(finished_run):
    kept, result, test = (
        load_file(finished_run / "examples.safetensors"),
        read_json(finished_run / "result.json"),
        open_dataset("digits-lt").test,
    )
    worst = naive_worst(result["dataset"]["counts"], result["per_class"])
    assert list(dict.fromkeys(kept["true"].tolist())) == worst
    model = load(finished_run)
    with torch.no_grad():
        scores = model.classifier(model.transform(torch.from_numpy(test.images))).numpy()
    said = scores.argmax(axis=1)
    for label in worst:
        mine = kept["images"][kept["true"] == label]
        wrong = [place for place in range(len(said)) if test.labels[place] == label != said[place]]
        assert len(mine) == min(6, len(wrong))
        for picture, other in zip(mine, kept["predicted"][kept["true"] == label], strict=True):
            assert any((picture == test.images[place]).all() and said[place] == other for place in wrong)


def test_the_surest_come_first():
    said = Predictions(
        target=np.array([1, 1, 1, 0, 1]),
        predicted=np.array([0, 1, 2, 1, 0]),
        confidence=np.array([0.5, 0.99, 0.9, 0.95, 0.7]),
        in_top_k=np.ones(5, dtype=bool),
        top_k=3,
    )
    assert most_confident_errors(said, 1).tolist() == [2, 4, 0]
    assert most_confident_errors(said, 2).tolist() == []


def test_nothing_is_kept_where_the_recipe_says_so(tmp_path):
    run(tmp_path / "run", small_recipe({"logging": {"examples": False}}, name="digits-lt/ce"))
    assert not (tmp_path / "run" / "examples.safetensors").exists()


@pytest.mark.parametrize(("height", "width"), [(128, 64), (256, 192), (640, 10), (65, 65)])
def test_thumbnails_are_small_and_keep_their_shape(height, width):
    images = torch.randint(0, 256, (3, height, width, 3), dtype=torch.uint8)
    small = thumbnails(images)
    assert max(small.shape[1:3]) == SIDE
    assert small.shape[1] / small.shape[2] == pytest.approx(height / width, rel=0.4)
    assert small.float().mean() == pytest.approx(images.float().mean(), abs=2)


def test_a_thumbnail_is_the_mean_of_what_it_stands_for():
    image = np.random.default_rng(0).integers(0, 256, (1, 128, 128, 3), dtype=np.uint8)
    expected = image.astype(float).reshape(1, 64, 2, 64, 2, 3).mean(axis=(2, 4))
    assert np.abs(thumbnails(torch.from_numpy(image)).numpy() - expected).max() <= 0.5


def test_small_images_stay_as_they_are():
    images = torch.randint(0, 256, (2, 8, 8, 1), dtype=torch.uint8)
    assert thumbnails(images) is images
