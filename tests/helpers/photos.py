"""A user's data set of noise images, for tests of the automatic choice."""

from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from tailcloud.data import Dataset, Split

RANDOM = np.random.RandomState(0)


def photos(counts, side=32, channels=3, val=0):
    """A user's data set, with noise images."""

    def part(labels):
        return Split(RANDOM.randint(0, 256, (len(labels), side, side, channels), np.uint8), labels.astype(np.int64))

    classes = np.arange(len(counts))
    return Dataset(
        spec="./photos",
        train=part(np.repeat(classes, counts)),
        test=part(np.repeat(classes, 3)),
        class_names=[f"class{c}" for c in classes],
        mean=[0.5] * channels,
        std=[0.3] * channels,
        val=part(np.repeat(classes, val)) if val else None,
    )


def photos_of_side(native, counts=(6, 3)):
    """As ``photos``, as if read from files whose shorter side has that many pixels; in memory they are smaller."""
    return replace(photos(counts, side=min(native, 40)), native_side=native)


COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 210)}


def photographs(folder, subject):
    """Wide pictures with a disc of the class at ``subject`` (0 left, 1 right), and other discs where it is not."""
    random = np.random.RandomState(1)
    for number, (name, colour) in enumerate(COLOURS.items()):
        (folder / name).mkdir(parents=True)
        for image in range(8):
            picture = Image.fromarray(random.randint(90, 140, (40, 120, 3)).astype(np.uint8))
            draw = ImageDraw.Draw(picture)
            for place in (0.1, 0.5, 0.9):
                other = list(COLOURS.values())[(number + random.randint(3)) % 3]
                x, shown = int(120 * place), colour if place == subject else other
                draw.ellipse((x - 11, 9, x + 11, 31), shown)
            picture.save(folder / name / f"{image}.png")
