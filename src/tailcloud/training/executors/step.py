"""One training step: forward, backward, update. Device code: no value is copied to the host here."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.objectives import Network, Objective
from tailcloud.optimizers import Optimizer


@dataclass(frozen=True)
class TrainingStep:
    """A plain PyTorch step; ``half`` runs the network, but not the loss, in bfloat16.

    ``network`` computes the outputs of the model from the model's parameters; by default it is the model itself.
    """

    model: Classifier
    objective: Objective
    optimizer: Optimizer
    half: bool = False
    network: Network | None = None

    def __call__(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Update the model on one batch; returns the loss, on the device."""
        loss = self.loss(batch, generator)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def loss(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """The loss of a batch. Random numbers are drawn here, outside of compiled code."""
        noise = self.objective.draw(batch, generator)
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=self.half):
            loss: Tensor = self.objective(self.network or self.model, batch, noise)
        return loss
