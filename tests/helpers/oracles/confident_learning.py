"""Confident learning, image by image: thresholds and suspects from whole rows of probabilities."""


def thresholds(probabilities, labels, weight):
    """t_j: the mean probability of the label over the images labelled j, with ``weight`` images of the overall mean."""
    own = [float(row[label]) for row, label in zip(probabilities, labels, strict=True)]
    mean = sum(own) / len(own)
    found = []
    for j in range(len(probabilities[0])):
        of_class = [p for p, label in zip(own, labels, strict=True) if label == j]
        found.append((sum(of_class) + weight * mean) / (len(of_class) + weight))
    return found


def suspects(probabilities, labels, judged, weight, highest):
    """Images whose most probable class is another one, and above its threshold; the least probable label first."""
    needed, found = thresholds(probabilities, labels, weight), []
    for i, row in enumerate(probabilities):
        k = max(range(len(row)), key=lambda j: row[j])
        if judged[i] and k != labels[i] and row[k] >= min(needed[k], highest):
            found.append((float(row[labels[i]]), i))
    return [i for _, i in sorted(found)]
