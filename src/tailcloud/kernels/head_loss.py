"""Head and loss in one kernel, with their gradients: features in, the loss of the batch out.

What ``Classify`` computes from a head and a loss of the softmax family, for as many classes as one program can hold:

    z_j = s·cos θ_j − s·k·δ_j·|ε_j| − s·m·[j = y],   L = −(1 − p_y)^γ · log p_y,   p = softmax(z)

with λ and 1 − λ before the terms of a mixed batch. A linear head has w·f + b instead of cos θ.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import CosineHead, Head, LinearHead
from tailcloud.kernels.launch import launch
from tailcloud.losses import CrossEntropyLoss, GCLLoss, Loss
from tailcloud.losses.gcl import SIGMA
from tailcloud.objectives import Network
from tailcloud.objectives.classify import Classify, Noise

TINY = 1e-12  # the shortest length that PyTorch's normalize divides by
ROWS = 32  # samples at a time
LARGEST = 128  # classes, and features


@triton.jit
def _term(
    z, target, noise, reach, row, rows, scale, margin, focal, across: tl.constexpr, down: tl.constexpr,
    C: tl.constexpr, BC: tl.constexpr, NOISY: tl.constexpr, SIGMA: tl.constexpr,
):  # fmt: skip
    """Each sample's loss and its gradient by z, for one set of targets; zero past the last sample."""
    column, real = tl.arange(0, BC), row < rows
    label = tl.load(target + row, real, 0)
    mine = column[None, :] == label[:, None]
    logits = scale * z
    if NOISY:
        place = noise + row[:, None] * down + column[None, :] * across
        normal = tl.load(place, real[:, None] & (column < C)[None, :], 0.0)
        depth = tl.minimum(tl.abs(normal * SIGMA), 1.0)
        logits -= tl.load(reach + column, column < C, 0.0)[None, :] * depth
    logits = tl.where(mine, logits - scale * margin, logits)
    logits = tl.where((column < C)[None, :], logits, float("-inf"))
    highest = tl.max(logits, 1)
    powers = tl.exp(logits - highest[:, None])
    total = tl.sum(powers, 1)
    own = tl.sum(tl.where(mine, logits, 0.0), 1)
    loss = highest + tl.log(total) - own
    # (1 − p)^γ with 1 − p = Σ of the others, which loses no digits where p is close to 1
    others = tl.sum(tl.where(mine, 0.0, powers), 1) / total
    weight = tl.where(focal > 0, tl.exp(focal * tl.log(tl.maximum(others, 1e-37))), 1.0)
    weight = tl.where(real, weight, 0.0)
    slope = weight[:, None] * scale * (powers / total[:, None] - tl.where(mine, 1.0, 0.0))
    return weight * loss, slope


@triton.jit(do_not_specialize=["rows"])
def finish(
    features, weight, bias, target, other, lam, noise, noise_other, reach, loss, by_features, by_weight, by_bias,
    rows, scale, margin, focal,
    D: tl.constexpr, BD: tl.constexpr, C: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr,
    COSINE: tl.constexpr, MIXED: tl.constexpr, NOISY: tl.constexpr, ACROSS: tl.constexpr, DOWN: tl.constexpr,
    SIGMA: tl.constexpr, TINY: tl.constexpr,
):  # fmt: skip
    """The mean loss of a batch, and its gradients by features, weight and bias; one program."""
    column, feature = tl.arange(0, BC), tl.arange(0, BD)
    place_w = column[:, None] * D + feature[None, :]
    real_w = (column < C)[:, None] & (feature < D)[None, :]
    anchors = tl.load(weight + place_w, real_w, 0.0)
    length_w = tl.maximum(tl.sqrt(tl.sum(anchors * anchors, 1)), TINY)
    if COSINE:
        anchors = anchors / length_w[:, None]
    else:
        shift = tl.load(bias + column, column < C, 0.0)
        by_shift = tl.zeros([BC], tl.float32)
    by_anchors = tl.zeros([BC, BD], tl.float32)
    mean = tl.zeros([BN], tl.float32)
    for start in range(0, rows, BN):
        row = start + tl.arange(0, BN)
        place_f = row[:, None] * D + feature[None, :]
        real_f = (row < rows)[:, None] & (feature < D)[None, :]
        points = tl.load(features + place_f, real_f, 0.0)
        length_f = tl.maximum(tl.sqrt(tl.sum(points * points, 1)), TINY)
        if COSINE:
            points = points / length_f[:, None]
        z = tl.dot(points, tl.trans(anchors), input_precision="tf32")
        if not COSINE:
            z += shift[None, :]
        each, slope = _term(
            z, target, noise, reach, row, rows, scale, margin, focal, ACROSS, DOWN, C, BC, NOISY, SIGMA
        )  # fmt: skip
        if MIXED:
            share = tl.load(lam)
            each_b, slope_b = _term(
                z, other, noise_other, reach, row, rows, scale, margin, focal, ACROSS, DOWN, C, BC, NOISY, SIGMA
            )  # fmt: skip
            each = share * each + (1 - share) * each_b
            slope = share * slope + (1 - share) * slope_b
        mean += each / rows
        slope = slope / rows
        by_points = tl.dot(slope, anchors, input_precision="tf32")
        by_anchors = tl.dot(tl.trans(slope), points, by_anchors, input_precision="tf32")
        if COSINE:
            along = tl.sum(by_points * points, 1)
            by_points = (by_points - tl.where(length_f > TINY, along, 0.0)[:, None] * points) / length_f[:, None]
        else:
            by_shift += tl.sum(slope, 0)
        tl.store(by_features + place_f, by_points, real_f)
    if COSINE:
        along = tl.sum(by_anchors * anchors, 1)
        by_anchors = (by_anchors - tl.where(length_w > TINY, along, 0.0)[:, None] * anchors) / length_w[:, None]
    else:
        tl.store(by_bias + column, by_shift, column < C)
    tl.store(by_weight + place_w, by_anchors, real_w)
    tl.store(loss, tl.sum(mean, 0))


def fits(head: Head, loss: Loss) -> bool:
    """Whether the kernel can compute that head and loss."""
    plain = type(loss) is CrossEntropyLoss and loss.weights is None and not loss.smoothing
    clouded = type(loss) is GCLLoss and not loss.tau
    known = type(head) in {CosineHead, LinearHead} and (plain or clouded)
    return known and max(max(weight.shape) for weight in head.parameters()) <= LARGEST


class FusedClassify(Classify):
    """The same objective; the kernel takes the absolute value of its random numbers."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Noise:
        """The normal numbers of both terms."""
        if not isinstance(self.loss, GCLLoss):
            return None, None
        shape, device = self.loss.shape(len(batch.target)), batch.target.device
        first = torch.randn(shape, device=device, generator=generator)
        return first, torch.randn(shape, device=device, generator=generator) if batch.other is not None else None

    def forward(self, network: Network, batch: Batch, noise: Noise) -> Tensor:
        """The scalar to minimise."""
        head = network.head
        assert isinstance(head, CosineHead | LinearHead)
        bias = None if isinstance(head, CosineHead) else head.bias
        with torch.autocast(batch.images.device.type, enabled=False):
            features = network.features(batch.images)
            loss: Tensor = _HeadLoss.apply(features, head.weight, bias, self, batch, noise)
        return loss


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, features: Tensor, weight: Tensor, bias: Tensor | None, objective: FusedClassify, batch: Batch,
        noise: Noise,
    ) -> Tensor:  # fmt: skip
        loss = objective.loss
        (classes, size), cosine, mixed = weight.shape, bias is None, batch.other is not None
        gradients = torch.empty_like(features), torch.empty_like(weight), torch.empty_like(weight[:, 0])
        value = torch.empty((), device=features.device)
        first, second = noise
        down, across = (
            (0, 0) if first is None else (s if n > 1 else 0 for s, n in zip(first.stride(), first.shape, strict=True))
        )
        clouded = isinstance(loss, GCLLoss)
        launch(
            finish, (1,),
            features, weight, weight if bias is None else bias, batch.target,
            batch.other if mixed else batch.target, batch.lam if mixed else value,
            features if first is None else first, features if second is None else second,
            loss.reach if clouded else features, value, *gradients,
            len(features), loss.scale, loss.margin if clouded else 0.0, loss.focal if clouded else 0.0,
            D=size, BD=max(16, triton.next_power_of_2(size)), C=classes, BC=max(16, triton.next_power_of_2(classes)),
            BN=ROWS, COSINE=cosine, MIXED=mixed, NOISY=first is not None, ACROSS=across, DOWN=down,
            SIGMA=SIGMA, TINY=TINY, num_warps=4 if classes <= 32 else 8, num_stages=1,
        )  # fmt: skip
        context.save_for_backward(*gradients)
        context.cosine = cosine
        return value

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_features, by_weight, by_bias = torch._foreach_mul(list(context.saved_tensors), gradient)
        return by_features, by_weight, None if context.cosine else by_bias, None, None, None
