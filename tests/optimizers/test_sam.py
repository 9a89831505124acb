"""SAM against gradients that are taken by hand at the worst point nearby."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from helpers.oracles import optimizers as naive
from tailcloud.data.loaders.batch import Batch
from tailcloud.losses import GCLLoss
from tailcloud.objectives import Classify
from tailcloud.optimizers import SGD, SharpnessAware
from tailcloud.recipe import Stage
from tailcloud.training.executors.step import TrainingStep

CPU = torch.device("cpu")
COUNTS, RADIUS = [9, 3, 1], 0.3


class TinyNet(nn.Module):
    """A classifier with batch norm, and a layer that no gradient reaches."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Tanh())
        self.out, self.idle = nn.Linear(12, len(COUNTS)), nn.Linear(1, 1)

    def forward(self, images):
        return self.out(self.body(images).flatten(1)).tanh()


def tiny(dtype=torch.float64):
    torch.manual_seed(0)
    return TinyNet().to(dtype)


def mixed_batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(6, 1, 4, 4, dtype=dtype, generator=generator)
    target = torch.tensor([0, 1, 2, 0, 1, 2])
    return Batch(images, target, target.flip(0), torch.tensor(0.3, dtype=dtype))


def step_of(model, radius=RADIUS, half=False, **settings):
    stage = Stage.model_validate({"epochs": 1, "loss": "gcl", "lr": 0.3, "weight_decay": 0.05, **settings})
    optimizer = SGD(stage, dict(model.named_parameters()), CPU)
    sam = SharpnessAware(optimizer.parameters, model.buffers(), radius) if radius else None
    return TrainingStep(model, Classify(GCLLoss(COUNTS)), optimizer, half, sam=sam)


def gradients_of(model, batch, noise, half=False):
    """The loss of a batch, and its gradient for every parameter, as numpy; None where there is none."""
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = Classify(GCLLoss(COUNTS))(model, batch, noise)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return loss.detach(), [None if each is None else each.numpy() for each in found]


def by_hand(model, batch, noise, half=False):
    """The loss, the gradient at the worst point, and the running statistics, one pass after the other."""
    loss, first = gradients_of(model, batch, noise, half)
    statistics = {name: value.clone() for name, value in model.named_buffers()}
    twin = copy.deepcopy(model)
    moved = [p for p, gradient in zip(twin.parameters(), first, strict=True) if gradient is not None]
    points = naive.worst_point(
        [p.detach().numpy() for p in moved], [gradient for gradient in first if gradient is not None], RADIUS
    )
    with torch.no_grad():
        for parameter, point in zip(moved, points, strict=True):
            parameter.copy_(torch.from_numpy(point))
    _, second = gradients_of(twin, batch, noise, half)
    return loss, second, statistics


@pytest.mark.parametrize("settings", [{}, {"clip": 0.1}, {"ema": 0.5}])
def test_steps_are_those_by_hand(settings):
    model, batch = tiny(), mixed_batch()
    expected, step = copy.deepcopy(model), step_of(model, **settings)
    velocity = [np.zeros(p.shape) for p in expected.parameters()]
    history = []
    for seed in (5, 6, 7):
        noise = step.objective.draw(batch, torch.Generator().manual_seed(seed))
        loss, gradients, statistics = by_hand(expected, batch, noise)
        found = step(batch, torch.Generator().manual_seed(seed))
        torch.testing.assert_close(found, loss)
        shown = [gradient for gradient in gradients if gradient is not None]
        if "clip" in settings:
            shown = naive.clipped(shown, settings["clip"])
        rest = iter(shown)
        with torch.no_grad():
            for number, weight in enumerate(expected.parameters()):
                if gradients[number] is not None:
                    velocity[number] = 0.9 * velocity[number] + next(rest) + 0.05 * weight.numpy()
                    weight.sub_(0.3 * torch.from_numpy(velocity[number]))
            for name, value in expected.named_buffers():
                value.copy_(statistics[name])
        for (name, value), other in zip(model.state_dict().items(), expected.state_dict().values(), strict=True):
            torch.testing.assert_close(value, other, msg=name)
        history.append(expected.out.weight.detach().clone().numpy())
    assert int(model.body[1].num_batches_tracked) == 3  # once per step, though each step has two passes
    if "ema" in settings:
        average = step.optimizer.average.weights["out.weight"].numpy()
        np.testing.assert_allclose(average, naive.average(history, 0.5), rtol=1e-6)


def test_half_precision_takes_both_gradients_in_bfloat16():
    model, batch = tiny(torch.float32), mixed_batch(torch.float32)
    twin, step = copy.deepcopy(model), step_of(model, half=True)
    noise = step.objective.draw(batch, torch.Generator().manual_seed(5))
    _, gradients, _ = by_hand(twin, batch, noise, half=True)
    step(batch, torch.Generator().manual_seed(5))
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        if gradient is not None:
            torch.testing.assert_close(parameter.grad, torch.from_numpy(gradient), rtol=0.05, atol=2e-3, msg=name)


def test_afterwards_the_weights_are_those_of_before_bit_for_bit():
    model, batch = tiny(torch.float32), mixed_batch(torch.float32)
    step = step_of(model)
    step.differentiate(batch, step.objective.draw(batch, torch.Generator()))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with step.sam.perturbed():
        length = sum(((p.detach() - before[name]) ** 2).sum() for name, p in model.named_parameters()) ** 0.5
        assert float(length) == pytest.approx(RADIUS, rel=1e-5)
        model.body[1].running_mean.add_(1.0)
        model.body[1].num_batches_tracked.add_(1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_an_error_at_the_worst_point_brings_the_weights_back():
    model, batch = tiny(), mixed_batch()
    step = step_of(model)
    step.differentiate(batch, step.objective.draw(batch, torch.Generator()))
    before = {name: value.clone() for name, value in model.state_dict().items()}

    with pytest.raises(MemoryError), step.sam.perturbed():
        raise MemoryError
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("gradient", [None, 0.0])
def test_without_a_gradient_nothing_moves(gradient):
    model = tiny()
    sam = SharpnessAware(dict(model.named_parameters()), model.buffers(), RADIUS)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = None if gradient is None else torch.full_like(parameter, gradient)
    with sam.perturbed():
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_step_draws_as_often_as_one_without_sam():
    states = []
    for radius in (0.0, RADIUS):
        generator = torch.Generator().manual_seed(3)
        step_of(tiny(), radius)(mixed_batch(), generator)
        states.append(generator.get_state())
    assert torch.equal(*states)
