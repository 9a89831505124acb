"""What a stage minimises on one batch."""

from collections.abc import Callable

import torch
from torch import Tensor

from tailcloud.data.batch import Batch
from tailcloud.losses import Loss


class Classify:
    """A loss on the model's outputs; on a mixed batch λ·L(z, y_a) + (1 − λ)·L(z, y_b), each with clouds of its own."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None]:
        """The random numbers of both terms, drawn outside of anything compiled."""
        rows, device = len(batch.target), batch.target.device
        first = self.loss.draw(rows, device, generator)
        return first, self.loss.draw(rows, device, generator) if batch.other is not None else None

    def __call__(
        self, network: Callable[[Tensor], Tensor], batch: Batch, noise: tuple[Tensor | None, Tensor | None]
    ) -> Tensor:
        """The scalar to minimise."""
        output = network(batch.images)
        value: Tensor = self.loss(output, batch.target, epsilon=noise[0])
        if batch.other is None or batch.lam is None:
            return value
        other: Tensor = self.loss(output, batch.other, epsilon=noise[1])
        return batch.lam * value + (1 - batch.lam) * other
