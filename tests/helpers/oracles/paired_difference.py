"""The difference of two models on the same images, and its error, with plain loops."""

from math import sqrt

FEW_BELOW = 20


def weight(i, target, counts, objective):
    """What image i counts."""
    if objective == "overall":
        return 1 / len(target)
    classes = {c for c in target if objective == "balanced" or counts[c] < FEW_BELOW}
    images = sum(c == target[i] for c in target)
    return 1 / (len(classes) * images) if target[i] in classes else 0.0


def difference(target, before, after, counts, objective):
    """Accuracy before and after in percent, and the error of the difference in points."""
    old = new = square = 0.0
    anywhere = (sum(a != b for a, b in zip(before, after, strict=True)) + 1) / (len(target) + 1)
    for i in range(len(target)):
        w = weight(i, target, counts, objective)
        old += 100 * w * before[i]
        new += 100 * w * after[i]
        members = [j for j in range(len(target)) if target[j] == target[i]]
        chance = (sum(before[j] != after[j] for j in members) + anywhere) / (len(members) + 1)
        square += (100 * w) ** 2 * chance
    return old, new, sqrt(square)
