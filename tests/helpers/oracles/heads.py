"""Heads and what re-balancing makes of them, recomputed naively in float64: lists in, lists out."""

import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(vector):
    length = math.hypot(*vector)
    return [x / length for x in vector] if length else list(vector)


def linear(features, weight, bias):
    return [[dot(f, w) + b for w, b in zip(weight, bias, strict=True)] for f in features]


def cosine(features, weight):
    return [[dot(unit(f), unit(w)) for w in weight] for f in features]


def scaled(outputs, scale, shift):
    return [[s * z + t for z, s, t in zip(row, scale, shift, strict=True)] for row in outputs]


def disalign(features, outputs, alpha, beta, v, c):
    aligned = []
    for f, row in zip(features, outputs, strict=True):
        sure = 1 / (1 + math.exp(-dot(v, f) - c))
        aligned.append([(1 + sure * a) * z + sure * b for z, a, b in zip(row, alpha, beta, strict=True)])
    return aligned


def causal(features, weight, mean, alpha):
    """The sum over both halves; ``alpha`` 0 is how it trains."""
    half = len(mean) // 2
    outputs = []
    for f in features:
        row = []
        for w in weight:
            total = 0.0
            for part in (slice(None, half), slice(half, None)):
                g, c = unit(f[part]), unit(mean[part])
                along = dot(g, c)
                left = [x - alpha * along * y for x, y in zip(g, c, strict=True)]
                total += dot(w[part], left) / (math.hypot(*w[part]) + 1 / 32)
            row.append(total / 2)
        outputs.append(row)
    return outputs


def moving_mean(batches):
    """c ← 0.9·c + the mean of each batch."""
    mean = [0.0] * len(batches[0][0])
    for batch in batches:
        mean = [0.9 * c + sum(f[d] for f in batch) / len(batch) for d, c in enumerate(mean)]
    return mean


def nearest_mean(features, trained, labels, classes, normalise):
    """−(squared distance to each class mean); −inf where a class has none."""
    centre = [0.0] * len(trained[0])
    if normalise == "cl2n":
        centre = [sum(f[d] for f in trained) / len(trained) for d in range(len(centre))]

    def placed(f):
        moved = [x - c for x, c in zip(f, centre, strict=True)]
        return moved if normalise == "un" else unit(moved)

    outputs = []
    for f in features:
        row = []
        for j in range(classes):
            own = [placed(g) for g, y in zip(trained, labels, strict=True) if y == j]
            if not own:
                row.append(-math.inf)
                continue
            mean = [sum(g[d] for g in own) / len(own) for d in range(len(f))]
            row.append(-sum((a - b) ** 2 for a, b in zip(placed(f), mean, strict=True)))
        outputs.append(row)
    return outputs


def tau_normed(features, weight, tau, *, cosine_head):
    """f·w / ‖w‖^τ without a bias, of normalised features where the head is a cosine one."""
    seen = [unit(f) if cosine_head else f for f in features]
    return [[dot(f, w) / math.hypot(*w) ** tau for w in weight] for f in seen]
