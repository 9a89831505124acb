"""Spread in an embedding against plain loops, and the features that it is measured on."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.oracles import spreads as oracle
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import embeddings
from tailcloud.evaluation.embeddings import (
    Embedding,
    Spread,
    by_group,
    centre_distance,
    embed,
    nearest_centre_accuracy,
    spread,
)

CLASSES = 4


def listed(values):
    return [None if math.isnan(value) else value for value in values]


@st.composite
def some_embedding(draw):
    labels = draw(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=25))
    features = np.random.default_rng(draw(st.integers(0, 999))).normal(size=(len(labels), 3))
    return Embedding(features, np.array(labels))


@given(some_embedding())
def test_spread_matches_plain_loops(embedding):
    found = spread(embedding, CLASSES)
    features, labels = embedding.features.tolist(), embedding.labels.tolist()
    within = [oracle.within(features, labels, c) for c in range(CLASSES)]
    between = [oracle.between(features, labels, c, CLASSES) for c in range(CLASSES)]
    assert listed(found.within) == pytest.approx(within)
    assert listed(found.between) == pytest.approx(between)
    expected = [w / b if w is not None and b is not None else None for w, b in zip(within, between, strict=True)]
    assert listed(found.overlap) == pytest.approx(expected)
    assert centre_distance(embedding, CLASSES) == pytest.approx(oracle.centre_distance(features, labels, CLASSES))


@given(some_embedding(), st.floats(0.01, 100))
def test_the_measures_on_the_page_do_not_depend_on_the_scale_of_the_features(embedding, factor):
    assume(len(set(embedding.labels.tolist())) > 1)
    unit = centre_distance(embedding, CLASSES)
    larger = Embedding(embedding.features * factor, embedding.labels)
    before, after = spread(embedding, CLASSES).divided(unit), spread(larger, CLASSES)
    after = after.divided(centre_distance(larger, CLASSES))
    for name in ("within", "between", "overlap"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-6)


@given(some_embedding(), some_embedding())
def test_images_near_their_own_centre_match_plain_loops(test, train):
    pair = (test.features.tolist(), test.labels.tolist(), train.features.tolist(), train.labels.tolist())
    expected = [oracle.nearest_centre_accuracy(*pair, c, CLASSES) for c in range(CLASSES)]
    assert listed(nearest_centre_accuracy(test, train, CLASSES)) == pytest.approx(expected)


def test_more_centres_than_one_block(monkeypatch):
    embedding = Embedding(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 17)
    whole = spread(embedding, 20).between
    monkeypatch.setattr(embeddings, "CHUNK", 4)
    np.testing.assert_array_equal(spread(embedding, 20).between, whole)
    assert np.nanmin(nearest_centre_accuracy(embedding, embedding, 20)) >= 0


def test_a_small_class_is_not_narrower_by_being_small():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(2000), 2)
    found = spread(Embedding(random.normal(size=(4000, 8)), labels), 2000).within
    assert np.mean(found**2) == pytest.approx(8, rel=0.05)


def test_groups_are_means_over_their_classes_and_empty_ones_are_none():
    values = np.array([1.0, 3.0, math.nan, 5.0])
    assert by_group(values, [500, 400, 3, 2]) == {"many": 2.0, "medium": None, "few": 5.0, "all": 3.0}


def test_classes_that_coincide_have_no_overlap_rather_than_infinity():
    assert listed(Spread(np.array([1.0, 0.0]), np.array([0.0, 0.0])).overlap) == [None, None]


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_features_are_what_the_head_sees(head):
    model = build_classifier(Architecture("resnet8", head, 0.25, 1, 3), seed=0)
    images = torch.randn(6, 1, 8, 8)
    batches = [Batch(images[:4], torch.tensor([0, 1, 2, 0])), Batch(images[4:], torch.tensor([1, 1]))]
    found = embed(model, batches)
    assert found.labels.tolist() == [0, 1, 2, 0, 1, 1]
    assert found.normalised == (head == "cosine")
    weight = model.head.weight.detach().double()
    outputs = model(images).detach().numpy()
    if head == "cosine":
        assert np.linalg.norm(found.features, axis=1) == pytest.approx(1)
        expected = found.features @ torch.nn.functional.normalize(weight, dim=1).numpy().T
    else:
        expected = found.features @ weight.numpy().T + model.head.bias.detach().numpy()
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
