"""Updates in float64, one number after the other. ``gradients`` has a list of arrays for each parameter."""

import math

import numpy as np


def sgd(weights, gradients, *, lrs, momentum, decay, nesterov=False):
    """v = μ·v + g + wd·w, then w −= lr·v, from v = 0; the weights after each step, and v.

    With Nesterov momentum, w −= lr·(g + wd·w + μ·v) instead.
    """
    velocity, after = np.zeros_like(weights), []
    for gradient, lr in zip(gradients, lrs, strict=True):
        slope = gradient + decay * weights
        velocity = momentum * velocity + slope
        weights = weights - lr * (slope + momentum * velocity if nesterov else velocity)
        after.append(weights)
    return after, velocity


def adamw(weight, gradients, *, lrs, beta1, beta2, epsilon, decay):
    """One weight and its gradients as plain numbers; the weight after each step."""
    mean = square = 0.0
    after = []
    for step, (gradient, lr) in enumerate(zip(gradients, lrs, strict=True), start=1):
        weight -= lr * decay * weight
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient * gradient
        unbiased, size = mean / (1 - beta1**step), square / (1 - beta2**step)
        weight -= lr * unbiased / (math.sqrt(size) + epsilon)
        after.append(weight)
    return after


def clipped(gradients, largest):
    """All gradients of a step times min(1, c / their norm together)."""
    norm = math.sqrt(sum(float(number) ** 2 for gradient in gradients for number in np.ravel(gradient)))
    return [gradient * (largest / norm if norm > largest else 1.0) for gradient in gradients]


def worst_point(weights, gradients, radius):
    """w + ρ·g / ‖g‖ of each array, with the norm of all numbers together; w itself where g is zero."""
    norm = math.sqrt(sum(float(number) ** 2 for gradient in gradients for number in np.ravel(gradient)))
    moved = []
    for weight, gradient in zip(weights, gradients, strict=True):
        numbers = np.array(weight, dtype=np.float64)
        for place in np.ndindex(numbers.shape):
            numbers[place] += radius * float(gradient[place]) / norm if norm else 0.0
        moved.append(numbers)
    return moved


def average(history, decay):
    """The weights after each step, the last one weighing most, then d times as much, and so on."""
    weighed = [decay ** (len(history) - 1 - place) for place in range(len(history))]
    return sum(share * weights for share, weights in zip(weighed, history, strict=True)) / sum(weighed)


def torch_groups(parameters, *, lr, decay, factors, plain=()):
    """Parameter groups for ``torch.optim``, one per parameter: the factor of its rate, no decay for ``plain`` ones."""
    return [
        {"params": [parameter], "lr": lr * factors[name], "weight_decay": 0.0 if name in plain else decay}
        for name, parameter in parameters.items()
    ]


def rate_by_step(step, *, steps, epochs, lr, warmup, schedule, milestones, decay):
    """The learning rate of a step of a stage; all times in epochs."""
    total = epochs * steps
    rising = min(round(warmup * steps), total // 5)
    if step < rising:
        return lr * (step + 1) / rising
    if schedule == "cosine":
        return lr * 0.5 * (1.0 + math.cos(math.pi * step / total))
    for milestone in milestones:
        lr = lr * decay if step >= round(milestone * total) else lr
    return lr
