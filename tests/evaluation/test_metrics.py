"""Every figure of a result against plain loops, and where there is nothing to measure."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracles import metrics as oracle
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import Predictions, confusion, predict, predict_on_device, summarise, to_predictions


def predictions(target, predicted, confidence=None, top=None):
    n = len(target)
    confidence = np.full(n, 0.5) if confidence is None else np.array(confidence)
    top = np.array(target) == np.array(predicted) if top is None else np.array(top)
    return Predictions(np.array(target), np.array(predicted), confidence, top, 5)


@given(
    data=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0.01, 1.0)), min_size=1, max_size=60),
    counts=st.lists(st.integers(0, 300), min_size=6, max_size=6).filter(any),
)
def test_figures_match_plain_loops(data, counts):
    target, predicted, confidence = map(list, zip(*data, strict=True))
    result = summarise(predictions(target, predicted, confidence), counts)
    per_class = oracle.per_class(target, predicted, 6)
    correct = [t == p for t, p in zip(target, predicted, strict=True)]
    assert result["per_class"] == pytest.approx(per_class)
    assert result["top1"] == pytest.approx(100 * sum(correct) / len(correct))
    assert result["balanced_accuracy"] == pytest.approx(oracle.group(per_class, counts, lambda n: True))
    assert result["many"] == pytest.approx(oracle.group(per_class, counts, lambda n: n > 100))
    assert result["medium"] == pytest.approx(oracle.group(per_class, counts, lambda n: 20 <= n <= 100))
    assert result["few"] == pytest.approx(oracle.group(per_class, counts, lambda n: n < 20))
    assert result["macro_f1"] == pytest.approx(oracle.macro_f1(target, predicted, 6))
    assert result["ece"] == pytest.approx(oracle.ece(confidence, correct))


def test_an_empty_group_and_a_class_without_test_images_are_none_not_zero():
    result = summarise(predictions([0, 0], [0, 1]), [500, 30, 200])
    assert result["few"] is None
    assert result["medium"] is None
    assert result["per_class"] == [50.0, None, None]
    assert result["many"] == 50.0


def test_confusion_counts_every_pair():
    pairs = confusion(predictions([0, 0, 1, 2, 2], [0, 1, 1, 0, 0]), 3)
    assert pairs == [[0, 0, 1], [0, 1, 1], [1, 1, 1], [2, 0, 2]]


def test_the_predictions_of_ranks_are_those_of_all_images():
    target, predicted, confidence = [0, 1, 2, 1], [0, 2, 2, 0], [0.9, 0.02, 0.5, 0.4]
    whole = predictions(target, predicted, confidence, [True, True, True, False])
    parts = [
        predictions(target[rows], predicted[rows], confidence[rows], whole.in_top_k[rows])
        for rows in (slice(1), slice(1, 4))
    ]
    assert summarise(Predictions.joined(parts), [5, 5, 5]) == summarise(whole, [5, 5, 5])
    assert Predictions.joined(parts).non_finite == 0


def test_reliability_bins_hold_every_image_and_their_borders_belong_below():
    result = summarise(predictions([0] * 4, [0] * 4, [1.0, 1 / 15, 2 / 15, 0.0]), [10])
    counts = [b["count"] for b in result["reliability"]]
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (2, 1, 1, 4)
    assert result["reliability"][5] == {"count": 0, "confidence": None, "accuracy": None}


@pytest.mark.parametrize("classes", [1, 2, 4, 12])
def test_predict_ranks_the_true_class_and_clamps_top_k(classes):
    model = build_classifier(Architecture("resnet8", "cosine", 1.0, 1, classes), 0)
    images, target = torch.randn(9, 1, 8, 8), torch.arange(9) % classes
    said = predict(model, [Batch(images[:5], target[:5]), Batch(images[5:], target[5:])], 30.0)
    probabilities = (30 * model(images)).softmax(dim=1).detach()
    assert said.top_k == min(5, classes)
    assert (said.predicted == probabilities.argmax(dim=1).numpy()).all()
    np.testing.assert_allclose(said.confidence, probabilities.max(dim=1).values.numpy(), rtol=1e-4)
    top = probabilities.topk(said.top_k, dim=1).indices
    assert (said.in_top_k == (top == target[:, None]).any(dim=1).numpy()).all()
    if classes <= 5:
        assert said.in_top_k.all()


def test_outputs_that_are_no_numbers_are_wrong_and_unsure():
    target = torch.tensor([0, 1, 2])
    outputs = torch.tensor([[float("nan")] * 3, [0.0, 1.0, float("inf")], [0.0, 0.0, 9.0]])
    said = to_predictions(predict_on_device(lambda images: images, [Batch(outputs, target)], 1.0), 3)
    assert said.non_finite == 2
    with np.errstate(all="raise"):
        figures = summarise(said, [5, 5, 5])
    assert figures["per_class"] == [0.0, 0.0, 100.0]
    assert figures["top5"] == pytest.approx(100 / 3)
    assert figures["ece"] == pytest.approx(100 / 3 * (1 - said.confidence[2]))
