"""How your own images are read: size, test split, and what happens to tiny classes."""

from dataclasses import dataclass
from typing import Literal

Fit = Literal["crop", "pad", "squash"]
Small = Literal["drop", "merge"]
LoaderKind = Literal["auto", "resident", "stream"]
SMALLEST_SIZE = 4  # pixels a side


@dataclass(frozen=True)
class ReadOptions:
    """The fields of a recipe's [data] table that say how images are read.

    Args:
        size: pixels a side of every image as it is read; by default the median of the images' shorter sides, up to 64.
        fit: how an image that is not square becomes square: "crop" cuts out its center, "pad" adds black borders,
            "squash" scales each side separately.
        test: the share of each class that is set aside as test split, if the data have none. In Python, 0 sets
            nothing aside: the training split is then the test split, too.
        group: what keeps images together in one split: a column of the CSV, "exif" (bursts), "duplicates" (copies and
            near-copies), or a regular expression on the file name whose first group is the key (patient, camera).
        min_count: classes with fewer training images are dropped or merged, as ``small`` says; 0 keeps all.
        max_count: of classes with more training images so many are kept, drawn at random; 0 keeps all.
        small: "drop" leaves tiny classes out, "merge" makes one class of them.
        loader: "resident" keeps all images in memory, "stream" reads each from its file when it is needed; "auto"
            streams the large benchmarks and images that do not fit into memory.
    """

    size: int | None = None
    fit: Fit = "crop"
    test: float = 0.2
    group: str | None = None
    min_count: int = 0
    max_count: int = 0
    small: Small = "drop"
    loader: LoaderKind = "auto"
