"""The heads of probabilistic contrastive learning (Du et al., TPAMI 2024), which estimates class means."""

import torch
from torch import Tensor

from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.linear import LinearHead
from tailcloud.heads.projection import EMBEDDING, Projecting


class WithClassMeans(Projecting):
    """A classifier and an embedding, and for each class the sum and number of its embeddings.

    ``sums`` and ``numbers`` are of this epoch, ``last_sums`` and ``last_numbers`` of the one before. They are buffers,
    so checkpoints have them, and they change in place.
    """

    sums: Tensor
    numbers: Tensor
    last_sums: Tensor
    last_numbers: Tensor

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        for epoch in ("", "last_"):
            self.register_buffer(f"{epoch}sums", torch.zeros(classes, EMBEDDING))
            self.register_buffer(f"{epoch}numbers", torch.zeros(classes))

    @torch.no_grad()
    def observe(self, embedding: Tensor, target: Tensor, epoch: int) -> None:
        """Add embeddings [batch, 128] of the classes ``target`` [batch]; an epoch has ``epoch`` embeddings.

        The first ones of the next epoch move the sums to ``last_sums``, so that a run can be resumed anywhere. A class
        of which an epoch had no image keeps its older sum.
        """
        over = self.numbers.sum() >= epoch
        replaced = over & (self.numbers > 0)
        self.last_sums.copy_(torch.where(replaced[:, None], self.sums, self.last_sums))
        self.last_numbers.copy_(torch.where(replaced, self.numbers, self.last_numbers))
        of_class = (target == torch.arange(len(self.numbers), device=target.device)[:, None]).to(embedding)
        self.sums.copy_(torch.where(over, 0, self.sums) + of_class @ embedding)
        self.numbers.copy_(torch.where(over, 0, self.numbers) + of_class.sum(dim=1))

    def means(self) -> Tensor:
        """The mean embedding of each class [classes, 128] over this epoch so far and the one before.

        It is 0, the mean of a uniform distribution, for a class that was not seen yet.
        """
        numbers = self.last_numbers + self.numbers
        return (self.last_sums + self.sums) / numbers.clamp(min=1)[:, None]


class ProCoHead(WithClassMeans, LinearHead):
    """With a linear classifier, as published."""

    inference = "linear"


class CosineProCoHead(WithClassMeans, CosineHead):
    """With the cosine classifier that clouds need."""

    inference = "cosine"
