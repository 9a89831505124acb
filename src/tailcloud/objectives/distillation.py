"""Distillation (Hinton, Vinyals & Dean, 2015): a network also learns the soft outputs of trained ones.

L + w · T² · KL(softmax(t / T) ‖ softmax(z / T)),   t: the mean logits of the teachers, z: the logits of the student
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tailcloud.data.loaders.batch import Batch
from tailcloud.losses.base import at_least_float32, batch_mean
from tailcloud.objectives.base import Network, Objective


class Distillation(Objective):
    """Another objective, and the divergence from teachers that see the same augmented images.

    Args:
        plain: the other objective; it has ``with_outputs``.
        teachers: normalised images to logits [batch, classes]; without gradients, in evaluation mode.
        temperature: T; the larger, the more the unlikely classes count.
        weight: w.
    """

    def __init__(self, plain: Objective, teachers: nn.Module, *, temperature: float = 4.0, weight: float = 1.0) -> None:
        super().__init__(plain.loss)
        self.plain, self.teachers = plain, teachers
        self.temperature, self.weight = temperature, weight

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """The random numbers of the other objective."""
        return self.plain.draw(batch, generator)

    def precompute(self, batch: Batch) -> Batch:
        """The batch with the logits of the teachers."""
        with torch.no_grad():
            return replace(self.plain.precompute(batch), teacher_logits=self.teachers(batch.images))

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        value, outputs = self.plain.with_outputs(network, batch, noise)
        given = batch.teacher_logits
        teacher = self.precompute(batch).teacher_logits if given is None else given
        assert teacher is not None
        logits = self.loss.logits(at_least_float32(outputs))
        return value + self.weight * soft_divergence(logits, at_least_float32(teacher), self.temperature)


def soft_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T²·KL(softmax(t / T) ‖ softmax(z / T)), the mean over a batch of logits [batch, classes].

    T² keeps the size of the gradient, which falls with 1 / T². A teacher's logit may be −∞.
    """
    wanted = (teacher / temperature).softmax(dim=1)
    log_found = (student / temperature).log_softmax(dim=1)
    each = (torch.special.xlogy(wanted, wanted) - wanted * log_found).sum(dim=1)
    return temperature**2 * batch_mean(each)
