"""The losses of the compared methods, recomputed naively in float64: one loop per sample and class."""

import math

from helpers.oracles.clouds import log_softmax_at


def class_weights(counts, weights, beta, power=1.0):
    raw = []
    for n in counts:
        if n == 0:
            raw.append(0.0)
        elif weights == "inverse":
            raw.append(1 / n)
        elif weights == "effective":
            raw.append(1 / sum(beta**k for k in range(n)))  # 1 + β + … + β^(n−1) = (1 − β^n) / (1 − β)
        else:
            raw.append(1.0)
    raw = [w**power if w else 0.0 for w in raw]
    present = sum(n > 0 for n in counts)
    return [w * present / sum(raw) for w in raw]


def scaled(row, scale):
    return [scale * value for value in row]


def weighted_mean(each, target, weights):
    total = sum(weights[y] * value for y, value in zip(target, each, strict=True))
    return total / sum(weights[y] for y in target)


def smoothed(logits, y, smoothing):
    """Cross-entropy with the label (1 − ε)·[j = y] + ε / C."""
    total = 0.0
    for j in range(len(logits)):
        label = (1 - smoothing if j == y else 0) + smoothing / len(logits)
        total -= label * log_softmax_at(logits, j)
    return total


def ce(output, target, counts, *, scale=1.0, weights="none", beta=0.9999, power=1.0, smoothing=0.0):
    each = [smoothed(scaled(row, scale), y, smoothing) for row, y in zip(output, target, strict=True)]
    return weighted_mean(each, target, class_weights(counts, weights, beta, power))


def focal(output, target, counts, *, scale=1.0, focal=1.0, form="softmax", weights="none", beta=0.9999, power=1.0):
    class_weight, total = class_weights(counts, weights, beta, power), 0.0
    for row, y in zip(output, target, strict=True):
        z = scaled(row, scale)
        if form == "softmax":
            likely = [math.exp(log_softmax_at(z, y))]
        else:
            likely = [1 / (1 + math.exp(-value if j == y else value)) for j, value in enumerate(z)]
        for p in likely:
            total += class_weight[y] * (1 - p) ** focal * -math.log(p)
    return total / len(target)


def ldam(output, target, counts, *, scale=30.0, margin=0.5, weights="none", beta=0.9999, power=1.0):
    n = [max(count, 1) for count in counts]
    widest = max(count**-0.25 for count in n)
    each = []
    for row, y in zip(output, target, strict=True):
        z = []
        for j, cosine in enumerate(row):
            z.append(scale * (cosine - margin * n[y] ** -0.25 / widest if j == y else cosine))
        each.append(-log_softmax_at(z, y))
    return weighted_mean(each, target, class_weights(counts, weights, beta, power))


def logit_adjust(output, target, counts, *, scale=1.0, tau=1.0, smoothing=0.0):
    return vs(output, target, counts, scale=scale, tau=tau, gamma=0.0, smoothing=smoothing)


def vs(output, target, counts, *, scale=1.0, tau=1.0, gamma=0.05, smoothing=0.0):
    n = [max(count, 1) for count in counts]
    total = 0.0
    for row, y in zip(output, target, strict=True):
        z = []
        for value, count in zip(row, n, strict=True):
            z.append((count / max(n)) ** gamma * scale * value + tau * math.log(count / sum(n)))
        total += smoothed(z, y, smoothing)
    return total / len(target)


def balanced_softmax(output, target, counts, *, scale=1.0):
    n = [max(count, 1) for count in counts]
    total = 0.0
    for row, y in zip(output, target, strict=True):
        powers = [count * math.exp(scale * value) for value, count in zip(row, n, strict=True)]
        total -= math.log(powers[y] / sum(powers))
    return total / len(target)


def eql(output, target, counts, epsilon, *, scale=1.0, threshold=0.005, probability=0.95):
    n = [max(count, 1) for count in counts]
    total = 0.0
    for i, y in enumerate(target):
        below = 0.0
        for k, value in enumerate(output[i]):
            beta = 1 if epsilon[i][k] < probability else 0
            rare = 1 if n[k] / sum(n) < threshold else 0
            below += (1 - beta * rare * (0 if k == y else 1)) * math.exp(scale * value)
        total -= math.log(math.exp(scale * output[i][y]) / below)
    return total / len(target)


def lade(output, target, counts, *, scale=1.0, alpha=0.1, lam=0.01):
    n = [max(count, 1) for count in counts]
    regulariser = 0.0
    for c in range(len(n)):
        prior = n[c] / sum(n)
        own = [scale * row[c] for row, y in zip(output, target, strict=True) if y == c]
        mean = sum(own) / len(own) if own else 0.0
        balanced = [math.exp(scale * row[c]) / prior / len(n) for row in output]
        log_mean = math.log(sum(balanced) / len(balanced))
        regulariser -= prior * (mean - log_mean - lam * log_mean**2)
    return logit_adjust(output, target, counts, scale=scale) + alpha * regulariser


def label_aware_smoothing(output, target, counts, *, scale=1.0, smooth_head=0.3, smooth_tail=0.0, form="concave"):
    n = [max(count, 1) for count in counts]
    most, least = max(n), min(n)
    total = 0.0
    for row, y in zip(output, target, strict=True):
        t = (n[y] - least) / (most - least) if most > least else 1.0
        if form == "concave":
            epsilon = smooth_tail + (smooth_head - smooth_tail) * math.sin(math.pi * t / 2)
        elif form == "linear":
            epsilon = smooth_tail + (smooth_head - smooth_tail) * t
        else:
            epsilon = smooth_head + (smooth_head - smooth_tail) * math.sin(3 * math.pi / 2 + math.pi * t / 2)
        for j in range(len(row)):
            label = (1 - epsilon if j == y else 0) + epsilon / len(row)
            total -= label * log_softmax_at(scaled(row, scale), j)
    return total / len(target)
