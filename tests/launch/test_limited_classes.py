"""Classes that ``data.max_count`` limits: the frequencies of the data stay known, for whoever uses the model."""

import json

import numpy as np
import pytest

import tailcloud
from helpers.drawing import draw_classes
from tailcloud.calibration.prior_file import read_prior
from tailcloud.data import ReadOptions, open_dataset
from tailcloud.data.dataset import limit_classes
from tailcloud.launch.execute import run_remarks
from tailcloud.recipe import load_recipe

SIZES = {"cat": 48, "lynx": 24, "owl": 8}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw_classes(tmp_path_factory.mktemp("limited") / "photos", SIZES, size=(12, 12))


@pytest.mark.parametrize("loader", ["resident", "stream"])
def test_the_sizes_of_classes_are_those_before_images_were_left_out(photos, loader):
    options = ReadOptions(size=12, max_count=10, loader=loader)
    limited, whole = (open_dataset(str(photos), options=each) for each in (options, ReadOptions(size=12)))
    assert limited.profile.counts.tolist() == [10, 10, whole.profile.counts[2]]
    assert limited.frequencies == whole.frequencies == whole.profile.counts.tolist()
    assert whole.class_sizes is None
    assert open_dataset(str(photos), options=ReadOptions(size=12, max_count=1000)).class_sizes is None


def test_a_limit_after_a_limit_keeps_the_first_sizes(photos):
    whole = open_dataset(str(photos), options=ReadOptions(size=12))
    assert limit_classes(limit_classes(whole, 20), 10).frequencies == whole.frequencies
    assert limit_classes(whole, 1000).class_sizes is None


def test_classes_that_are_limited_alike_have_a_tail(photos):
    recipe, said = load_recipe("own/ce", [{"data": str(photos)}]), []
    for most in (5, 6):
        limited = open_dataset(str(photos), options=ReadOptions(size=12, max_count=most))
        assert limited.profile.is_balanced
        said += run_remarks(recipe, limited)
    assert not [remark for remark in said if "no tail" in remark]


def test_as_in_training_means_the_frequencies_of_the_data(photos, tmp_path):
    settings = {"data.size": 12, "data.max_count": 10, "stage1.epochs": 1, "model.backbone": "resnet8"}
    run = tailcloud.train("own/ce", data=str(photos), settings=settings, out=tmp_path / "run", device="cpu")
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    assert about["class_sizes"] == run.result.dataset.class_sizes == [38, 19, 6]
    assert max(about["counts"]) < 11
    model = run.model
    np.testing.assert_allclose(read_prior("train", model.class_names, model.frequencies), np.array([38, 19, 6]) / 63)
    per_class = np.array(run.result.per_class)
    forward = (per_class * np.array([38, 19, 6]) / 63).sum()
    assert run.result.priors.forward.plain == pytest.approx(forward)
    assert "cat has 38 images" in (tmp_path / "run" / "report.html").read_text()
