"""The fit test: whole pictures, unless their centers are better."""

import numpy as np
import pytest
import torch

from helpers.photos import photographs
from tailcloud.auto_recipe.candidates import pretrained_candidates
from tailcloud.auto_recipe.choice import with_better_fit
from tailcloud.auto_recipe.fit_test import class_mean_hits, some_of_each_class
from tailcloud.auto_recipe.flip_test import run_flip_test
from tailcloud.auto_recipe.pretrained_draft import PretrainedDraft
from tailcloud.launch.run_data import open_for_choice
from tailcloud.recipe import load_recipe

CPU = torch.device("cpu")


def naive_hits(features, target):
    hits = []
    for i, row in enumerate(features):
        best, found = -np.inf, None
        for name in sorted(set(target)):
            others = [features[j] for j in range(len(target)) if target[j] == name and j != i]
            mean = np.mean(others, axis=0)
            cosine = float(row @ mean / np.linalg.norm(mean))
            if cosine > best:
                best, found = cosine, name
        hits.append(found == target[i])
    return hits


def test_hits_of_class_means_are_those_of_a_plain_loop():
    random = np.random.RandomState(0)
    target = np.repeat([0, 2, 5], [4, 7, 2])
    features = random.randn(13, 6) + np.eye(6)[target]
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert class_mean_hits(features, target).tolist() == naive_hits(features, target)


def test_rare_classes_are_in_the_sample():
    labels = np.repeat(np.arange(3), [500, 30, 2])
    rows = some_of_each_class(labels, 3)
    assert np.bincount(labels[rows]).tolist() == [24, 24, 2]
    assert len(some_of_each_class(np.repeat(np.arange(900), 3), 900)) == 1800


@pytest.mark.parametrize(("subject", "fit"), [(0.5, "crop"), (0.1, "pad")])
def test_the_center_is_read_if_subjects_are_there_and_the_whole_if_they_are_not(tmp_path, subject, fit):
    photographs(tmp_path / "photos", subject)
    recipe = load_recipe(None, [{"data": str(tmp_path / "photos")}])
    dataset = open_for_choice(recipe)
    candidates = pretrained_candidates(dataset, CPU, recipe, set())
    assert {each.fit for each in candidates} == {"pad"}
    drafts = [PretrainedDraft(dataset, each, CPU, run_flip_test(dataset.train), []) for each in candidates]
    tested = with_better_fit(drafts)
    assert {draft.candidate.fit for draft in tested} == {fit}
    assert all(draft.one_epoch.data.fit == fit for draft in tested)
    assert any("class means of features reach" in reason for reason in tested[0].reasons())
