"""The objective of nearly every method: a loss on the network's outputs."""

from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.objectives.base import Network, Objective

Noise = tuple[Tensor | None, Tensor | None]


class Classify(Objective):
    """A loss on the model's outputs; on a mixed batch λ·L(z, y_a) + (1 − λ)·L(z, y_b), each with its own noise."""

    expert_heads: ClassVar[bool] = True
    distills: ClassVar[bool] = True
    per_image = True
    weighs: ClassVar[bool] = True

    def draw(self, batch: Batch, generator: torch.Generator) -> Noise:
        """The random numbers of both terms."""
        rows, device = batch.rows, batch.target.device
        first = self.loss.draw(rows, device, generator)
        return first, self.loss.draw(rows, device, generator) if batch.other is not None else None

    def with_outputs(self, network: Network, batch: Batch, noise: Noise) -> tuple[Tensor, Tensor]:
        """The scalar to minimise, and the outputs."""
        outputs = network(batch.images)
        return self.of_outputs(outputs, batch, noise), outputs

    def of_outputs(self, output: Tensor, batch: Batch, noise: Noise) -> Tensor:
        """The loss of outputs [batch, classes] for a batch."""
        value = self.term(output, batch.target, batch.whole, noise[0])
        if batch.other is None or batch.lam is None:
            return value
        whole = batch.whole if batch.other_whole is None else batch.other_whole
        return batch.lam * value + (1 - batch.lam) * self.term(output, batch.other, whole, noise[1])

    def term(self, output: Tensor, target: Tensor, whole: Tensor | None, epsilon: Tensor | None) -> Tensor:
        """The loss for one of the labels; ``whole`` are those of the whole batch, the same if partners are of it."""
        value: Tensor = self.loss(output, target, epsilon=epsilon)
        return value if whole is None else self.loss.in_whole(value, target, whole)
