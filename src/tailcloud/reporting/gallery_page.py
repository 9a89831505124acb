"""The page of ``tailcloud predict --gallery``: images of every predicted class, the least certain first."""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image

from tailcloud.data.image_io import ImageArray, Unreadable, read_image
from tailcloud.files import check_output
from tailcloud.formatting import counted, percent, readable
from tailcloud.reporting import report_path, write_page
from tailcloud.reporting.example_images import COARSE
from tailcloud.reporting.image_uri import image_uri, photo_uri
from tailcloud.reporting.render import render
from tailcloud.serving.predict import FilePrediction, in_threads

PER_CLASS, UNSURE_SHOWN, IN_CLASSES = 24, 60, 2400  # images on the page, at most
FAILED_LISTED = 500
SIDE = 144  # pixels of an image on the page, at most
AHEAD = 64  # images that are decoded in advance
MANY = 200  # images; reading them takes seconds

logger = logging.getLogger(__name__)


def gallery_path(path: Path) -> Path:
    """The path of the page; a file that is not a page of tailcloud is refused, as is a folder without permission."""
    target = report_path([path.parent], path, "gallery.html", option="--gallery")
    check_output("--gallery", target, folder=False)
    return target


class LeastCertain:
    """Counts the predictions of a group, and keeps the least certain ones, at most ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total = limit, 0
        self._kept: list[tuple[float, int, FilePrediction]] = []  # a heap with the most certain one on top

    def add(self, prediction: FilePrediction) -> None:
        """Count a prediction; of equally certain ones the first are kept."""
        self.total += 1
        entry = -prediction.top[0][1], -self.total, prediction
        if len(self._kept) < self.limit:
            heappush(self._kept, entry)
        else:
            heappushpop(self._kept, entry)

    def __iter__(self) -> Iterator[FilePrediction]:
        """The kept predictions, the least certain first."""
        return (prediction for *_, prediction in sorted(self._kept, key=lambda entry: entry[:2], reverse=True))


@dataclass(frozen=True)
class Shown:
    """An image on the page: file, link to it, classes with probabilities, and the image as a data URI, if readable."""

    file: str
    href: str
    top: Sequence[tuple[str, str]]
    uri: str | None
    coarse: bool

    @property
    def words(self) -> str:
        """File and probabilities in one line, for people who do not see the image."""
        return f"{self.file}: {', '.join(f'{name} {share}' for name, share in self.top)}"


@dataclass(frozen=True)
class Section:
    """The images of a class, or the unsure ones: ``total`` images, of which some are shown."""

    title: str
    total: int
    images: Sequence[Shown]


class Gallery:
    """Collects predictions for the page. Memory is bounded by the number of classes, not by that of images."""

    top = 3  # classes per image on the page

    def __init__(self, class_names: Sequence[str], *, threshold: float = 0.0) -> None:
        self.threshold, self.classes = threshold, len(class_names)
        per_class = max(1, min(PER_CLASS, IN_CLASSES // len(class_names)))
        self.by_class = {name: LeastCertain(per_class) for name in class_names}
        self.unsure = LeastCertain(UNSURE_SHOWN)
        self.failed: list[tuple[str, str]] = []
        self.failures = 0

    def add(self, prediction: FilePrediction) -> None:
        """Add one prediction."""
        if prediction.error is not None:
            self.failures += 1
            if len(self.failed) < FAILED_LISTED:
                self.failed.append((readable(str(prediction.path)), readable(prediction.error)))
        elif prediction.is_sure(self.threshold):
            self.by_class[prediction.top[0][0]].add(prediction)
        else:
            self.unsure.add(prediction)

    def write(self, path: Path, run: Path) -> Path:
        """Read the images again and write the page; it replaces a page of tailcloud."""
        return write_page(path, self.page(path.parent, readable(str(run))))

    def page(self, folder: Path, run: str) -> str:
        """The page, with links to files as seen from ``folder``."""
        found = sorted(self.by_class.items(), key=lambda item: -item[1].total)
        groups = [("unsure", self.unsure), *((readable(name), group) for name, group in found if group.total)]
        unsure, *sections = read_sections(groups, folder, self.top)
        images = unsure.total + sum(one.total for one in sections)
        headline = f"{counted(images, 'image')}: {counted(len(sections), 'class', 'classes')}"
        return render(
            "gallery.html.j2",
            title=f"Predictions of {run}",
            headline=headline + (f", {unsure.total:,} unsure" if unsure.total else ""),
            run=run,
            images=images,
            classes=self.classes,
            threshold=f"{100 * self.threshold:g} %",
            unsure=unsure,
            sections=sections,
            absent=[readable(name) for name, each in self.by_class.items() if not each.total],
            failed=self.failed,
            failures=self.failures,
        )


def read_sections(groups: Sequence[tuple[str, LeastCertain]], folder: Path, top: int) -> list[Section]:
    """Groups of images as the page shows them; the images are read by threads."""
    kept = [list(group) for _, group in groups]
    if (images := sum(map(len, kept))) >= MANY:
        logger.info("Reading %s for the gallery", counted(images, "image"))
    pixels = in_threads(thumbnail, (prediction.path for each in kept for prediction in each), AHEAD)
    return [
        Section(title, group.total, [shown(prediction, next(pixels)[1], folder, top) for prediction in each])
        for (title, group), each in zip(groups, kept, strict=True)
    ]


def thumbnail(path: Path) -> ImageArray | str:
    """The whole image, uint8 [H, W, 3] with at most ``SIDE`` pixels a side; or why it cannot be read."""
    try:
        image = Image.fromarray(read_image(path, 3, min_side=SIDE))
    except Unreadable as error:
        return error.why
    image.thumbnail((SIDE, SIDE))
    return np.asarray(image)


def shown(prediction: FilePrediction, image: ImageArray | str, folder: Path, top: int) -> Shown:
    """An image with its texts."""
    coarse = not isinstance(image, str) and max(image.shape[:2]) <= COARSE
    uri = None if isinstance(image, str) else image_uri(image) if coarse else photo_uri(image)
    names = [(readable(name), percent(100 * p)) for name, p in prediction.top[:top]]
    return Shown(readable(str(prediction.path)), link_from(folder, prediction.path), names, uri, coarse)


def link_from(folder: Path, path: Path) -> str:
    """A relative link to a file, so that page and images can be moved together."""
    return quote(os.fsencode(os.path.relpath(path.parent.resolve() / path.name, folder.resolve())))
