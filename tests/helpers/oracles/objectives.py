"""Objectives, and what is theirs alone, recomputed naively in float64: one loop per sample and class."""

import math

from scipy.special import ive

from helpers.oracles.clouds import cloud_sizes, log_softmax_at


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(vector):
    length = math.sqrt(dot(vector, vector))
    return [value / length for value in vector]


def cross_entropy(logits, target):
    return sum(-log_softmax_at(row, y) for row, y in zip(logits, target, strict=True)) / len(target)


def angular(cosine, target, epsilon, counts, *, scale, strength, margin, easy_margin, focal):
    sizes, total = cloud_sizes(counts, "log"), 0.0
    for row, y, noise in zip(cosine, target, epsilon, strict=True):
        logits = []
        for j, value in enumerate(row):
            turn = math.pi / 2 * strength * sizes[j] * abs(noise[j]) + (margin if j == y else 0.0)
            turned = math.cos(math.acos(value) + turn)
            if easy_margin:
                logits.append(scale * (turned if value > 0 else value))
            else:
                logits.append(
                    scale * (turned if value > math.cos(math.pi - turn) else value - math.sin(math.pi - turn))
                )
        entropy = -log_softmax_at(logits, y)
        total += (1 - math.exp(-entropy)) ** focal * entropy
    return total / len(target)


def feature_noise(logits, target, noise, weight, counts, strength):
    n, lowered = [max(count, 1) for count in counts], []
    for row, cloud in zip(logits, noise, strict=True):
        sizes = [math.log(max(n)) - math.log(count) for count in n]
        lowered.append([z - strength * abs(dot(w, cloud)) * d for z, w, d in zip(row, weight, sizes, strict=True)])
    return cross_entropy(lowered, target)


def supervised_contrast(embedding, target, temperature):
    total = 0.0
    for i, anchor in enumerate(embedding):
        others = [k for k in range(len(target)) if k != i]
        friends = [k for k in others if target[k] == target[i]]
        below = sum(math.exp(dot(anchor, embedding[k]) / temperature) for k in others)
        for p in friends:
            total -= math.log(math.exp(dot(anchor, embedding[p]) / temperature) / below) / len(friends)
    return total / len(target)


def prototypical_contrast(embedding, target, prototypes, temperature):
    total = 0.0
    for anchor, y in zip(embedding, target, strict=True):
        similar = [math.exp(dot(anchor, prototype) / temperature) for prototype in prototypes]
        total -= math.log(similar[y] / sum(value for j, value in enumerate(similar) if j != y))
    return total / len(target)


def square_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def memory_outputs(features, centroids, weight, recall, selector):
    """``recall`` and ``selector`` are pairs (matrix, bias)."""
    outputs = []
    for f in features:
        asked = [dot(row, f) + b for row, b in zip(*recall, strict=True)]
        shares = [math.exp(log_softmax_at(asked, j)) for j in range(len(asked))]
        memory = [sum(share * m[d] for share, m in zip(shares, centroids, strict=True)) for d in range(len(f))]
        chosen = [math.tanh(dot(row, f) + b) for row, b in zip(*selector, strict=True)]
        reach = 10 / math.sqrt(min(square_distance(f, m) for m in centroids))
        x = [reach * (f[d] + chosen[d] * memory[d]) for d in range(len(f))]
        length = math.sqrt(dot(x, x))
        squashed = [length / (1 + length) * value / length for value in x]
        outputs.append([dot(squashed, unit(w)) for w in weight])
    return outputs


def memory_order(features, target, centroids, push, margin):
    attraction, others, pairs = 0.0, 0.0, 0
    for f, y in zip(features, target, strict=True):
        for j, m in enumerate(centroids):
            if j == y:
                attraction += square_distance(f, m) / len(target)
            else:
                others, pairs = others + square_distance(f, m), pairs + 1
    return attraction + push * max(0.0, margin - others / pairs)


def balanced_contrast(embedding, target, prototypes, temperature):
    points, classes = [*embedding, *prototypes], [*target, *range(len(prototypes))]
    total = 0.0
    for i, anchor in enumerate(embedding):
        likeness = [math.exp(dot(anchor, point) / temperature) for point in points]
        below = 0.0
        for j in range(len(prototypes)):
            members = [k for k in range(len(points)) if classes[k] == j and k != i]
            below += sum(likeness[k] for k in members) / len(members)
        friends = [k for k in range(len(points)) if classes[k] == target[i] and k != i]
        total -= sum(math.log(likeness[p] / below) for p in friends) / len(friends)
    return total / len(target)


def log_bessel(order, x):
    """log (I_ν(x) / x^ν), by SciPy, or by its series where that underflows."""
    if x > 1:
        return math.log(ive(order, x)) + x - order * math.log(x)
    terms = [
        2 * k * math.log(x / 2) - math.lgamma(k + 1) - math.lgamma(order + k + 1) if x else -math.inf
        for k in range(1, 30)
    ]
    first = -math.lgamma(order + 1)
    return first - order * math.log(2) + math.log1p(sum(math.exp(term - first) for term in terms))


def class_means(embeddings, targets, classes):
    """The mean of the embeddings of each class; zeros for a class without any."""
    means = []
    for j in range(classes):
        own = [embedding for embedding, y in zip(embeddings, targets, strict=True) if y == j]
        means.append([sum(values) / len(own) for values in zip(*own, strict=True)] if own else [0.0] * 128)
    return means


def probabilistic_scores(embedding, means, temperature):
    size = len(means[0])
    rows = []
    for v in embedding:
        row = []
        for m in means:
            length = math.sqrt(dot(m, m))
            kappa = size * length / (1 - length**2) if length**2 < 1 else 1e5
            kappa = min(kappa, 1e5)
            located = [kappa * value / length if length else 0.0 for value in m]
            moved = [a + b / temperature for a, b in zip(located, v, strict=True)]
            order = size // 2 - 1
            row.append(log_bessel(order, math.sqrt(dot(moved, moved))) - log_bessel(order, kappa))
        rows.append(row)
    return rows


def soft_divergence(student, teacher, temperature):
    """T²·KL(teacher ‖ student) with one loop per image and class; 0·log 0 = 0."""
    total = 0.0
    for z, t in zip(student, teacher, strict=True):
        for j, logit in enumerate(t):
            if logit == -math.inf:
                continue
            log_wanted = log_softmax_at([value / temperature for value in t if value > -math.inf], 0)
            log_wanted += (logit - next(value for value in t if value > -math.inf)) / temperature
            log_found = log_softmax_at([value / temperature for value in z], j)
            total += math.exp(log_wanted) * (log_wanted - log_found)
    return temperature**2 * total / max(len(student), 1)


def experts(outputs, target, counts, taus, scale):
    """The mean cross-entropy over experts and images; ``outputs`` [experts][images][classes] get τ·log π each."""
    n = [max(count, 1) for count in counts]
    total = 0.0
    for rows, tau in zip(outputs, taus, strict=True):
        adjusted = [[scale * z + tau * math.log(m / sum(n)) for z, m in zip(row, n, strict=True)] for row in rows]
        total += cross_entropy(adjusted, target)
    return total / len(taus)
