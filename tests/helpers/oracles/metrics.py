"""Accuracy, groups, F1 and ECE, recomputed with plain loops."""


def per_class(target, predicted, classes):
    values = []
    for c in range(classes):
        members = [i for i, t in enumerate(target) if t == c]
        values.append(100 * sum(predicted[i] == c for i in members) / len(members) if members else None)
    return values


def group(values, counts, inside):
    chosen = [v for v, n in zip(values, counts, strict=True) if inside(n) and v is not None]
    return sum(chosen) / len(chosen) if chosen else None


def macro_f1(target, predicted, classes):
    scores = []
    for c in range(classes):
        if c not in target:
            continue
        hits = sum(t == c and p == c for t, p in zip(target, predicted, strict=True))
        claimed, images = sum(p == c for p in predicted), sum(t == c for t in target)
        precision = hits / claimed if claimed else 0.0
        recall = hits / images
        scores.append(200 * precision * recall / (precision + recall) if hits else 0.0)
    return sum(scores) / len(scores)


def ece(confidence, correct, bins=15):
    error = 0.0
    for b in range(bins):
        inside = [i for i, c in enumerate(confidence) if b / bins < c <= (b + 1) / bins or (b == 0 and c == 0)]
        if inside:
            accuracy = sum(correct[i] for i in inside) / len(inside)
            sure = sum(confidence[i] for i in inside) / len(inside)
            error += len(inside) / len(confidence) * abs(accuracy - sure)
    return 100 * error
