"""Temperature, priors and mixes, recomputed with plain loops."""

import math


def nll(logits, target, temperature, shift):
    """The mean of −log softmax(z / T + shift)_y."""
    total = 0.0
    for row, y in zip(logits, target, strict=True):
        scores = [z / temperature + b for z, b in zip(row, shift, strict=True)]
        top = max(scores)
        total += top + math.log(sum(math.exp(s - top) for s in scores)) - scores[y]
    return total / len(target)


def posterior(likelihoods, prior):
    """Bayes' rule: p(j | x) from p(x | j) and the mix of classes."""
    joint = [a * b for a, b in zip(likelihoods, prior, strict=True)]
    return [value / sum(joint) for value in joint]


def backward(counts):
    """The rarest class as often as the most frequent one; equally frequent classes share."""
    counts = [max(n, 1) for n in counts]
    descending = sorted(counts, reverse=True)
    ascending = descending[::-1]
    shares = []
    for n in counts:
        ranks = [rank for rank, other in enumerate(descending) if other == n]
        shares.append(sum(ascending[rank] for rank in ranks) / len(ranks))
    return [share / sum(shares) for share in shares]


def accuracy_of_a_drawn_test_part(target, predicted, images):
    """In percent, with every image counted as often as its class comes: ``images`` of each class in the mix."""
    right = total = 0.0
    for y, said in zip(target, predicted, strict=True):
        weight = images[y] / target.count(y)
        total += weight
        right += weight * (y == said)
    return 100 * right / total if total else None


def tilted_nll(logits, target, inverse, tau, tilt, shift):
    """The mean of −log softmax(z / T + τ·t + shift)_y."""
    return nll(logits, target, 1 / inverse, [tau * t + b for t, b in zip(tilt, shift, strict=True)])


def best_tilt(logits, target, tilt, shift, inverses=(0.1, 10.0), taus=(-2.0, 2.0), rounds=12, places=9):
    """(1 / T, τ) of the smallest such mean, on grids that close in on the best place of the one before."""
    low, high = [inverses[0], taus[0]], [inverses[1], taus[1]]
    best = None
    for _ in range(rounds):
        grids = [
            [a + (b - a) * place / (places - 1) for place in range(places)] for a, b in zip(low, high, strict=True)
        ]
        tried = [(tilted_nll(logits, target, a, tau, tilt, shift), a, tau) for a in grids[0] for tau in grids[1]]
        best = min(tried if best is None else [best, *tried])
        for axis, (bound_low, bound_high) in enumerate((inverses, taus)):
            reach = (high[axis] - low[axis]) / 3
            low[axis] = max(bound_low, best[axis + 1] - reach)
            high[axis] = min(bound_high, best[axis + 1] + reach)
    return best[1], best[2]


def gain_of_tilt(logits, target, tilt, shift, inverse, tau):
    """How much more likely, in nats over all images, (1 / T, τ) is than the best 1 / T with τ = 0."""
    alone, _ = best_tilt(logits, target, tilt, shift, taus=(0.0, 0.0))
    without, with_it = (tilted_nll(logits, target, a, t, tilt, shift) for a, t in ((alone, 0.0), (inverse, tau)))
    return len(target) * (without - with_it)
