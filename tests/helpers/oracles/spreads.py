"""Spread within and between classes, recomputed with plain loops."""

import math


def centre(features, labels, c):
    own = [row for row, label in zip(features, labels, strict=True) if label == c]
    return [sum(column) / len(own) for column in zip(*own, strict=True)] if own else None


def within(features, labels, c):
    own = [row for row, label in zip(features, labels, strict=True) if label == c]
    if len(own) < 2:
        return None
    pairs = [math.dist(a, b) ** 2 for i, a in enumerate(own) for b in own[:i]]
    return math.sqrt(sum(pairs) / len(pairs) / 2)  # the variance without a centre: half the mean squared distance


def between(features, labels, c, classes):
    mine = centre(features, labels, c)
    others = [centre(features, labels, k) for k in range(classes) if k != c]
    away = [math.dist(mine, other) for other in others if other] if mine else []
    return min(away) if away else None


def nearest_centre_accuracy(features, labels, train, train_labels, c, classes):
    own = [row for row, label in zip(features, labels, strict=True) if label == c]
    centres = {k: middle for k in range(classes) if (middle := centre(train, train_labels, k))}
    hits = sum(min(centres, key=lambda k: math.dist(row, centres[k])) == c for row in own)
    return 100 * hits / len(own) if own else None


def centre_distance(features, labels, classes):
    found = [middle for c in range(classes) if (middle := centre(features, labels, c))]
    squares = [math.dist(a, b) ** 2 for i, a in enumerate(found) for b in found[:i]]
    return math.sqrt(sum(squares) / len(squares)) if squares else 1.0
