"""The Triton kernel of ``head_loss``: the loss of a batch from its features, and all gradients."""

import triton
import triton.language as tl


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
