"""Cloud sizes and the GCL loss, recomputed naively in float64: one loop per sample and class."""

import math


def cloud_sizes(counts, strategy):
    n = [max(c, 1) for c in counts]
    n_max = max(n)
    sizes = []
    for count in n:
        if strategy == "log":
            size = math.log(n_max) - math.log(count)
        elif strategy == "cos":
            size = math.cos(count / n_max * math.pi / 2)
        else:
            exponent = {"pow3": 1 / 3, "pow4": 1 / 4}[strategy]
            size = n_max**exponent - count**exponent
        sizes.append(0.0 if count == n_max else size)
    largest = max(sizes)
    return [size / largest if largest > 0 else 0.0 for size in sizes]


def log_softmax_at(logits, which):
    top = max(logits)
    return logits[which] - top - math.log(sum(math.exp(value - top) for value in logits))


def gcl_loss(cosine, target, epsilon, counts, *, scale, noise, margin, focal, strategy, tau=0.0):
    sizes, n = cloud_sizes(counts, strategy), [max(count, 1) for count in counts]
    total = 0.0
    for i in range(len(target)):
        logits = []
        for j in range(len(counts)):
            row = epsilon[i if len(epsilon) > 1 else 0]
            value = cosine[i][j] - noise * sizes[j] * abs(row[j if len(row) > 1 else 0])
            if j == target[i]:
                value -= margin
            logits.append(scale * value + tau * math.log(n[j] / sum(n)))
        cross_entropy = -log_softmax_at(logits, target[i])
        total += (1 - math.exp(-cross_entropy)) ** focal * cross_entropy
    return total / len(target)
