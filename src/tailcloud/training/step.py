"""One step of training: forward, backward, update. Device code: no host value is read here."""

import torch
from torch import Tensor
from torch.optim import Optimizer

from tailcloud.classifier import Classifier
from tailcloud.data.batch import Batch
from tailcloud.stages.objective import Classify


class EagerStep:
    """PyTorch as it comes."""

    def __init__(self, model: Classifier, objective: Classify, optimizer: Optimizer) -> None:
        self.model, self.objective, self.optimizer = model, objective, optimizer

    def __call__(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Improve the model on one batch; the loss stays on the device."""
        noise = self.objective.draw(batch, generator)
        loss = self.objective(self.model, batch, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()
