"""The contract of objectives (docs/extending.md), tried on a small network and a batch with one image of a class."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.backbones import branched
from tailcloud.backbones.experts import with_experts
from tailcloud.classifier import Architecture, Classifier, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.errors import UsageError
from tailcloud.heads import Head
from tailcloud.losses import Loss
from tailcloud.objectives import Objective, cut
from tailcloud.plugins.contracts import (
    CLASSES,
    COUNTS,
    FEATURES,
    NO_MEAN,
    called,
    check_no_parameters,
    check_prior,
    moved_tensors,
    same_gradients,
)
from tailcloud.recipe.validate import heads_for

TARGET = [0, 0, 0, 0, 0, 1]
SIZE = 8  # pixels


class ProbeLoss(Loss):
    """A cross-entropy with a random part; it notes what it was told, and whether it was given its random numbers."""

    per_image = True

    def __init__(self) -> None:
        super().__init__(1.0)
        self.shares: list[float] = []
        self.undrawn = False

    def advance(self, share: float) -> None:
        """Note the share."""
        self.shares.append(share)

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
        """One number for each image."""
        return torch.randn(rows, 1, generator=generator, device=device)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean cross-entropy of outputs with random scales."""
        self.undrawn = self.undrawn or epsilon is None
        return F.cross_entropy(output if epsilon is None else output * (1 + 0.1 * epsilon), target)


class CountingNetwork:
    """A classifier that counts how often it computes features."""

    def __init__(self, model: Classifier) -> None:
        self.model, self.calls = model, 0

    @property
    def head(self) -> Head:
        """Features to outputs."""
        return self.model.head

    def features(self, images: Tensor) -> Tensor:
        """Features of normalised images."""
        self.calls += 1
        return self.model.features(images)

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs."""
        outputs: Tensor = self.head(self.features(images))
        return outputs


@dataclass(frozen=True)
class ObjectiveTrial:
    """An objective, its name, its loss, and the model that it is tried on."""

    name: str
    objective: Objective
    loss: ProbeLoss
    model: Classifier

    def value(self, batch: Batch, seed: int = 0) -> tuple[Tensor, CountingNetwork]:
        """The value of a batch for a copy of the model, and the copy; ``seed`` is what PyTorch's own generator has."""
        torch.default_generator.manual_seed(seed)
        network = CountingNetwork(deepcopy(self.model).train())
        noise = self.objective.draw(batch, torch.Generator().manual_seed(0))
        value: Tensor = self.objective(network, batch, noise)
        if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
            raise UsageError(f"{self.name} must return the value to minimise as a scalar tensor with a gradient")
        return value, network

    def gradients(self, pieces: Sequence[Batch]) -> Tensor:
        """All gradients of a batch in pieces; batch norm uses its running statistics."""
        network = CountingNetwork(deepcopy(self.model).eval())
        noise = self.objective.draw(pieces[0], torch.Generator().manual_seed(0))
        for piece in pieces:
            value: Tensor = self.objective(network, piece, cut(noise, piece))
            (value * len(piece.target) / len(TARGET)).backward()  # type: ignore[no-untyped-call]
        return torch.cat([p.grad.flatten() for p in network.model.parameters() if p.grad is not None])


def try_objective(objective: type[Objective]) -> None:
    """An ``Objective`` whose value is a finite scalar with gradients, and follows from what it is given alone."""
    name = called(objective)
    if not isinstance(objective, type) or not issubclass(objective, Objective):
        raise UsageError(f"{name} must be a tailcloud.objectives.Objective; write class {name}(Objective)")
    _check_methods(name, objective)
    loss = ProbeLoss()
    model = _model_for(name, objective(loss, list(COUNTS), FEATURES))
    trial = ObjectiveTrial(name, objective(loss, list(COUNTS), model.backbone.features), loss, model)
    _check_what_it_keeps(trial)
    plain = _batch(trial.objective)
    mixed = replace(plain, other=1 - plain.target, lam=torch.tensor(0.3)) if trial.objective.mixes else plain
    for batch in (plain, mixed):
        _check_value(trial, batch)
    _check_repeats(trial, plain)
    if trial.objective.mixes and torch.equal(trial.value(mixed)[0], trial.value(replace(mixed, other=plain.target))[0]):
        raise UsageError(
            f"{name} does not use the classes of the partners of mixed images (batch.other, with batch.lam); use them, "
            "or write mixes = False"
        )
    if trial.objective.per_image:
        _check_pieces(trial, mixed)
    if trial.objective.distills and objective.forward is Objective.forward:
        _check_outputs(trial, plain)
    check_prior(name, trial.objective.prior(np.array([0.9, 0.1]), np.array([0.5, 0.5])))


def _check_methods(name: str, objective: type[Objective]) -> None:
    """The methods without a default are there."""
    if objective.draw is Objective.draw:
        raise UsageError(
            f"{name} needs draw(self, batch, generator), which returns the random numbers of a call, for example "
            "self.loss.draw(batch.rows, batch.target.device, generator)"
        )
    if objective.forward is Objective.forward and objective.with_outputs is Objective.with_outputs:
        raise UsageError(f"{name} needs forward(self, network, batch, noise), which returns the value to minimise")


def _model_for(name: str, objective: Objective) -> Classifier:
    """A small model with the backbone and head that an objective needs."""
    heads = heads_for(objective)
    if not heads:
        needed = called(objective.needs or Head)
        raise UsageError(f"{name} needs the head {needed}, which has no name yet; call tailcloud.register_head first")
    backbone = with_experts(branched("resnet8", objective.branches), objective.experts)
    return build_classifier(Architecture(backbone, heads[0], 0.25, 1, CLASSES), 0)


def _check_what_it_keeps(trial: ObjectiveTrial) -> None:
    """The loss, no parameters, and tensors as buffers; what recipes ask of the class, not of an object, is there."""
    name, objective = trial.name, trial.objective
    if getattr(objective, "loss", None) is not trial.loss:
        raise UsageError(f"{name} must keep its loss; call super().__init__(loss, counts, features) in its __init__")
    check_no_parameters(name, objective, "a head of your own (needs)")
    if loose := [key for key, value in vars(objective).items() if isinstance(value, Tensor)]:
        raise UsageError(
            f"{name} keeps the tensor {loose[0]} where no GPU finds it; write "
            f'self.register_buffer("{loose[0]}", …, persistent=False)'
        )
    for field in ("views", "second"):
        if getattr(objective, field) != getattr(type(objective), field):
            raise UsageError(f"{name} must set {field} in the class, not in __init__: recipes read it there")


def _batch(objective: Objective) -> Batch:
    """Random images with the views and the second batch that an objective asks for."""
    generator = torch.Generator().manual_seed(0)

    def images() -> Tensor:
        return torch.randn(len(TARGET), 1, SIZE, SIZE, generator=generator)

    second = Batch(images(), torch.tensor(TARGET).flip(0)) if objective.second else None
    views = tuple(images() for _ in range(objective.views))
    return Batch(images(), torch.tensor(TARGET), views=views, second=second)


def _check_value(trial: ObjectiveTrial, batch: Batch) -> None:
    """Finite, with finite gradients, from one pass of the network, and nothing is remembered for the next step."""
    buffers = {key: value.clone() for key, value in trial.objective.named_buffers()}
    value, network = trial.value(batch)
    value.backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in network.model.parameters() if p.grad is not None]
    if not gradients:
        raise UsageError(f"the value of {trial.name} does not depend on the network: no parameter has a gradient")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in (value, *gradients)):
        raise UsageError(
            f"{trial.name} has a value or a gradient that is NaN or infinite, for a batch of {len(TARGET)} images of "
            f"which one is alone in its class; such batches occur"
        )
    if network.calls != 1:
        raise UsageError(
            f"{trial.name} computes features {network.calls} times in a step; join the images with torch.cat, and call "
            "network or network.features once"
        )
    for key, before in buffers.items():
        if not torch.equal(trial.objective.get_buffer(key), before):
            raise UsageError(
                f"{trial.name} changes its buffer {key} in a step, which no checkpoint saves; keep it in a buffer of a "
                "head of your own (needs)"
            )
    if trial.loss.undrawn:
        raise UsageError(
            f"{trial.name} calls its loss without random numbers: let draw return those of "
            "self.loss.draw(rows, device, generator), and pass them on as epsilon"
        )


def _check_repeats(trial: ObjectiveTrial, batch: Batch) -> None:
    """The value depends on the arguments and the share of the stage, on nothing else."""
    trial.objective.advance(0.0)
    first, _ = trial.value(batch)
    if not torch.equal(first, trial.value(batch, seed=1)[0]):
        raise UsageError(
            f"{trial.name} gives two values for the same weights, batch and random numbers; draw all of them in draw, "
            "with its generator, and remember nothing from step to step"
        )
    places = _places(trial.objective)
    trial.objective.advance(0.5)
    if 0.5 not in trial.loss.shares:
        raise UsageError(f"{trial.name}.advance does not tell its loss; call super().advance(share) in it")
    _check_value(trial, batch)
    trial.objective.advance(0.0)
    if moved := moved_tensors(places, _places(trial.objective)):
        raise UsageError(
            f"{trial.name}.advance must change the buffer {moved[0]} in place, as self.{moved[0]}.fill_(…) does: a "
            "captured step reads it at its address"
        )
    if not torch.equal(first, trial.value(batch)[0]):
        raise UsageError(
            f"{trial.name}.advance depends on earlier calls, so a resumed run would differ; what it sets must follow "
            "from the share alone"
        )


def _places(objective: Objective) -> dict[str, Tensor]:
    """Buffers, in the memory that they have now, which stays taken."""
    return {key: value.detach() for key, value in objective.named_buffers()}


def _check_pieces(trial: ObjectiveTrial, batch: Batch) -> None:
    """With ``per_image``, the gradients of pieces add up to that of the batch."""
    cuts = ((0, 4), (4, len(TARGET)))
    if not same_gradients(trial.gradients([batch]), trial.gradients([_piece(batch, *ends) for ends in cuts])):
        raise UsageError(f"{trial.name} {NO_MEAN}")


def _piece(batch: Batch, start: int, end: int) -> Batch:
    """The micro-batch of some images."""
    rows: Callable[[Tensor], Tensor] = lambda tensor: tensor[start:end]  # noqa: E731
    return replace(
        batch,
        images=rows(batch.images),
        target=rows(batch.target),
        other=None if batch.other is None else rows(batch.other),
        views=tuple(map(rows, batch.views)),
        second=batch.second and _piece(batch.second, start, end),
        place=start,
        whole=batch.target,
    )


def _check_outputs(trial: ObjectiveTrial, batch: Batch) -> None:
    """With ``distills``, ``with_outputs`` gives the outputs for the images of the batch too."""
    noise = trial.objective.draw(batch, torch.Generator().manual_seed(0))
    _, outputs = trial.objective.with_outputs(CountingNetwork(trial.model), batch, noise)
    if tuple(outputs.shape) != (len(TARGET), CLASSES):
        raise UsageError(
            f"{trial.name}.with_outputs gives outputs of shape {tuple(outputs.shape)} for {len(TARGET)} images and "
            f"{CLASSES} classes"
        )
