"""One training step: forward, backward, update. Device code: no value is copied to the host here."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.objectives import Network, Objective
from tailcloud.optimizers import Optimizer, SharpnessAware


@dataclass(frozen=True)
class TrainingStep:
    """A plain PyTorch step; ``half`` runs the network, but not the loss, in bfloat16.

    ``network`` computes the outputs of the model from the model's parameters; by default it is the model itself.
    With ``sam`` a step has two passes over the same batch with the same random numbers; the loss is that of the first.
    """

    model: Classifier
    objective: Objective
    optimizer: Optimizer
    half: bool = False
    network: Network | None = None
    sam: SharpnessAware | None = None

    def __call__(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Update the model on one batch; returns the loss, on the device."""
        return self.update(batch, self.draw(batch, generator))

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """The random numbers of a step: outside of compiled code, and not from the weights."""
        return self.objective.draw(batch, generator)

    def precompute(self, batch: Batch) -> Batch:
        """The batch with all that can be computed before the step, as the step would compute it."""
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=self.half):
            return self.objective.precompute(batch)

    def update(self, batch: Batch, noise: Any) -> Tensor:
        """Update the model, given the random numbers; returns the loss, on the device."""
        loss = self.differentiate(batch, noise)
        if self.sam:
            with self.sam.perturbed():
                self.differentiate(batch, noise)
        self.optimizer.step()
        return loss

    def differentiate(self, batch: Batch, noise: Any) -> Tensor:
        """The loss of a batch, on the device; its gradients replace those of before."""
        loss = self.loss(batch, noise)
        self.optimizer.zero_grad()  # fused kernels do not add to gradients
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def loss(self, batch: Batch, noise: Any) -> Tensor:
        """The loss of a batch, given its random numbers."""
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=self.half):
            loss: Tensor = self.objective(self.network or self.model, batch, noise)
        return loss
