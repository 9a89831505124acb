"""What registering refuses, because it would go wrong without a word later."""

import pytest
import torch

from tailcloud.errors import UsageError
from tailcloud.losses import LOSSES, Loss
from tailcloud.plugins import register_loss


class Learned(Loss):
    """A loss that hopes to be trained itself."""

    def __init__(self, counts):
        super().__init__(1.0)
        self.temperature = torch.nn.Parameter(torch.ones(len(counts)))

    def forward(self, output, target, *, epsilon=None):
        return torch.nn.functional.cross_entropy(output / self.temperature, target)


def test_a_loss_with_parameters_is_refused_because_nobody_would_train_them():
    with pytest.raises(UsageError, match=r"Learned has the parameter temperature, which no stage trains or saves"):
        register_loss("learned", Learned)
    assert "learned" not in LOSSES
