"""The outputs of a model for held-out images: of how many, of which, and with which class shares."""

import numpy as np
import pytest
import torch
from torch import nn

from tailcloud.calibration import held_out
from tailcloud.calibration.held_out import predict_held_out
from tailcloud.calibration.priors import normalised
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages

IMPLIED = normalised([1, 2, 1])


def images(labels):
    """Image i has the grey level i."""
    levels = np.arange(len(labels), dtype=np.uint8)[:, None, None, None]
    return ResidentImages(Split(levels, np.array(labels)), torch.device("cpu"))


class Level(nn.Module):
    """Three outputs: the grey level, and with dropout, which an evaluation must not have, zeros."""

    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.999)

    def forward(self, batch):
        return self.dropout(batch.flatten(1).repeat(1, 3))


def outputs(labels, **options):
    return predict_held_out(Level().train(), images(labels), Normalise([0.0], [1 / 255]), IMPLIED, **options)


def test_twenty_images_are_enough():
    assert outputs([0] * 19) is None
    found = outputs([0] * 19 + [2])
    assert found.target.tolist() == [0] * 19 + [2]
    np.testing.assert_allclose(found.outputs, np.arange(20)[:, None].repeat(3, 1), atol=1e-4)
    assert predict_held_out(Level(), None, Normalise([0.0], [1.0]), IMPLIED) is None


@pytest.mark.parametrize("absent", [0.0, 0.5])
def test_the_shift_leads_from_the_implied_prior_to_that_of_the_images(absent):
    shares = np.array([30, absent, 10]) / (40 + absent)
    with np.errstate(divide="ignore"):
        expected = np.log(shares) - np.log(IMPLIED)
    np.testing.assert_allclose(outputs([0, 0, 2, 0] * 10, absent=absent).shift, expected)


def test_of_many_images_evenly_spaced_ones_are_taken_with_their_labels(monkeypatch):
    monkeypatch.setattr(held_out, "MAX_LOGITS", 60)
    labels = np.arange(50) % 3
    found = outputs(labels.tolist())
    assert len(found.target) * 3 <= 60
    np.testing.assert_allclose(found.outputs[:, 0], np.arange(0, 50, 3), atol=1e-4)
    assert found.target.tolist() == labels[::3].tolist()
