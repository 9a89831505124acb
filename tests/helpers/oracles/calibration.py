"""Temperature, logit bias and priors, recomputed with plain loops."""

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
    """Bayes' rule: p(j | x) from p(x | j) and the class prior."""
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


def accuracy_under_prior(target, predicted, images):
    """In percent, with every image counted as often as its class comes: ``images`` of each class in the mix."""
    right = total = 0.0
    for y, said in zip(target, predicted, strict=True):
        weight = images[y] / target.count(y)
        total += weight
        right += weight * (y == said)
    return 100 * right / total if total else None


def biased_nll(logits, target, inverse, tau, direction, shift):
    """The mean of −log softmax(z / T + τ·t + shift)_y."""
    return nll(logits, target, 1 / inverse, [tau * t + b for t, b in zip(direction, shift, strict=True)])


def best_bias(logits, target, direction, shift, inverses=(0.1, 10.0), taus=(-2.0, 2.0), places=9, finest=0.005):
    """(1 / T, τ) of the smallest such mean, on a grid that moves until it stands around it, and then gets finer."""
    reach, centre, best = [], [], None
    for low, high in (inverses, taus):
        reach.append((high - low) / 2)
        centre.append((high + low) / 2)
    while max(reach) > finest:
        grids = [
            [min(high, max(low, middle + far * (2 * place / (places - 1) - 1))) for place in range(places)]
            for middle, far, (low, high) in zip(centre, reach, (inverses, taus), strict=True)
        ]
        points = {(inverse, tau) for inverse in grids[0] for tau in grids[1]}
        found = min((biased_nll(logits, target, *point, direction, shift), *point) for point in points)
        if best is None or found >= best:
            reach = [far / 2 for far in reach]
        best = found if best is None else min(best, found)
        centre = best[1:]
    return best[1], best[2]


def gain_of_bias(logits, target, direction, shift, inverse, tau):
    """How much more likely, in nats over all images, (1 / T, τ) is than the best 1 / T with τ = 0."""
    alone, _ = best_bias(logits, target, direction, shift, taus=(0.0, 0.0))
    without, with_it = (biased_nll(logits, target, a, t, direction, shift) for a, t in ((alone, 0.0), (inverse, tau)))
    return len(target) * (without - with_it)


def newton_step(logits, target, direction, shift, inverse, tau):
    """How far the minimum of that mean is from (1 / T, τ), by one step of Newton's method."""
    gradient, hessian = [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]
    for row, y in zip(logits, target, strict=True):
        scores = [inverse * z + tau * t + b for z, t, b in zip(row, direction, shift, strict=True)]
        weights = [math.exp(score - max(scores)) for score in scores]
        p = [weight / sum(weights) for weight in weights]
        mean = [sum(q * v for q, v in zip(p, values, strict=True)) for values in (row, direction)]
        for a, first in enumerate((row, direction)):
            gradient[a] += mean[a] - first[y]
            for b, second in enumerate((row, direction)):
                moments = zip(p, first, second, strict=True)
                hessian[a][b] += sum(q * (v - mean[a]) * (w - mean[b]) for q, v, w in moments)
    determinant = hessian[0][0] * hessian[1][1] - hessian[0][1] * hessian[1][0]
    return (
        -(hessian[1][1] * gradient[0] - hessian[0][1] * gradient[1]) / determinant,
        -(hessian[0][0] * gradient[1] - hessian[1][0] * gradient[0]) / determinant,
    )


def ece_under_prior(target, predicted, confidence, prior, bins=15):
    """In percent, with every image counted as often as its class comes with the shares ``prior``."""
    weights = [prior[y] / target.count(y) for y in target]
    error = 0.0
    for b in range(bins):
        gap = 0.0
        for y, said, sure, weight in zip(target, predicted, confidence, weights, strict=True):
            if b / bins < sure <= (b + 1) / bins or (b == 0 and sure == 0):
                gap += weight * ((y == said) - sure)
        error += abs(gap)
    return 100 * error / sum(weights) if sum(weights) else None
