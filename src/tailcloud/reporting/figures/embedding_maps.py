"""t-SNE maps of embeddings: the same images in the same colours for every run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tailcloud.evaluation.embeddings import Embedding, Vectors
from tailcloud.evaluation.projection import DrawnImages, align_map, choose_classes, choose_images, project
from tailcloud.formatting import counted, shortened, whole
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Point, Scale
from tailcloud.runs.result import Result

MAP_IMAGES = 1000  # of each split, about
MAP_CLASSES = 100  # drawn at most
MAP_COLOURS = 10
SEED = 0
SPLITS = {"train": "training", "test": "test"}
EDGE = 8.0


@dataclass(frozen=True)
class MapSelection:
    """What every map of a page shows: some classes, some images of each, and a colour for at most ten classes."""

    result: Result
    classes: NDArray[np.int64]
    chosen: dict[str, DrawnImages]
    labels: dict[str, NDArray[np.int64]]

    @property
    def crowded(self) -> bool:
        """Whether there are more classes than colours."""
        return len(self.classes) > MAP_COLOURS

    @property
    def coloured(self) -> list[int]:
        """The classes with their own colour, most frequent first: up to ten, else the most frequent and the rarest."""
        order: list[int] = self.classes.tolist()
        return [*order[: MAP_COLOURS // 2], *order[-MAP_COLOURS // 2 :]] if self.crowded else order

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Colours and names, with the training images of each class."""
        names, counts = self.result.names, self.result.dataset.counts
        named = [
            (f"class-{place}", f"{shortened(names[index], 24)} ({whole(counts[index])})")
            for place, index in enumerate(self.coloured)
        ]
        others = len(self.classes) - len(named)
        return [*named, *([("others", counted(others, "other class", "other classes"))] if others else [])]


def select_images(result: Result, labels: dict[str, NDArray[np.int64]]) -> MapSelection:
    """Choose the classes and images of the maps, from the class counts and the labels of both splits."""
    classes = choose_classes(result.dataset.counts, MAP_CLASSES)
    chosen = {split: choose_images(labels[split], classes, MAP_IMAGES, SEED) for split in SPLITS}
    return MapSelection(result, classes, chosen, {split: labels[split][chosen[split].positions] for split in SPLITS})


def map_runs(selection: MapSelection, runs: Sequence[dict[str, Embedding]]) -> list[dict[str, Vectors]]:
    """For each run a map of training and test images together; later maps are rotated to match the first."""
    maps: list[Vectors] = []
    for splits in runs:
        features = np.concatenate([splits[split].features[selection.chosen[split].positions] for split in SPLITS])
        points = project(features, SEED)
        maps.append(align_map(points, maps[0]) if maps else points)
    first = len(selection.labels["train"])
    return [{"train": points[:first], "test": points[first:]} for points in maps]


def draw_map(selection: MapSelection, points: dict[str, Vectors], split: str, label: str) -> Markup:
    """One split of a map in colours, training images as dots and test images as crosses.

    The other split is grey; it is left out if some classes have no colour, since these are grey too.
    """
    canvas = Canvas(f"Map of the {SPLITS[split]} images: {label}", WIDTH)
    if not selection.crowded:
        other = "test" if split == "train" else "train"
        _mark(canvas, _places(points[other]), other, "backdrop-mark")
    places, labels = _places(points[split]), selection.labels[split]
    coloured = selection.coloured
    colours = {index: f"class-{place}" for place, index in enumerate(coloured)}
    for index in sorted(selection.classes.tolist(), key=colours.__contains__):  # coloured classes on top
        own = [places[i] for i in np.flatnonzero(labels == index)]
        _mark(canvas, own, split, colours.get(index, "others"), selection.result.names[index])
    return canvas.svg()


def _places(points: Vectors) -> list[Point]:
    x, y = Scale(-1, 1, EDGE, WIDTH - EDGE), Scale(-1, 1, WIDTH - EDGE, EDGE)
    return [(x(across), y(up)) for across, up in points.tolist()]


def _mark(canvas: Canvas, places: Sequence[Point], split: str, css: str, name: str = "") -> None:
    if split == "train":
        canvas.dots(places, f"map {css}", name)
    else:
        canvas.crosses(places, f"map {css}", name)
