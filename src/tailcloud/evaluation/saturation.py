"""Softmax saturation: the gradient that the images of each class still give (section 3.1 of the GCL paper).

With cross-entropy ∂L/∂z_y = p_y − 1 (eq. 2): it vanishes as soon as the target's logit is a little larger than the
others, and an image without gradient has no effect on training.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.losses import Loss
from tailcloud.losses.base import at_least_float32

DRAWS = 4  # of the noise, over which the gradient is averaged


def target_gradients(loss: Loss, output: Tensor, target: Tensor, epsilon: Tensor | None = None) -> Tensor:
    """|∂L_i/∂z_y| of each sample i, [batch], for logits z = scale · output [batch, classes]; 1 − p_y for cross-entropy.

    A loss is the mean of its samples' losses L_i, so its gradient is multiplied by their number. Class weights are part
    of L_i.
    """
    with torch.enable_grad():
        leaf = at_least_float32(output.detach()).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf, target, epsilon=epsilon), leaf)
    of_target = gradient.gather(1, target[:, None]).squeeze(1)
    return of_target.abs() * (len(target) / loss.scale)


@torch.no_grad()
def class_gradients(
    network: Callable[[Tensor], Tensor], batches: Iterable[Batch], loss: Loss, classes: int, generator: torch.Generator
) -> list[float | None]:
    """The mean of |∂L/∂z_y| over the images of each class, averaged over ``DRAWS`` draws of noise; None without images.

    Put the network into evaluation mode first. If a loss has class weights, batches should mix classes, as in training.
    """
    found, targets = [], []
    for batch in batches:
        output, rows = network(batch.images), len(batch.target)
        draws = [loss.draw(rows, output.device, generator) for _ in range(DRAWS)]
        different = draws if draws[0] is not None else draws[:1]
        each = [target_gradients(loss, output, batch.target, epsilon) for epsilon in different]
        found.append(torch.stack(each).mean(dim=0))
        targets.append(batch.target)
    target = torch.cat(targets).cpu().numpy()
    sums = np.bincount(target, weights=torch.cat(found).double().cpu().numpy(), minlength=classes)
    images = np.bincount(target, minlength=classes)
    return [float(f"{total / n:.4g}") if n else None for total, n in zip(sums, images, strict=True)]
