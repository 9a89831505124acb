"""How images of one's own are read: to what size, which are for testing, and what happens to tiny classes."""

from dataclasses import dataclass
from typing import Literal

Fit = Literal["crop", "pad", "squash"]
Small = Literal["drop", "merge"]
LoaderKind = Literal["auto", "resident", "stream"]


@dataclass(frozen=True)
class ReadOptions:
    """The choices of a recipe's [data] table.

    Args:
        size: pixels a side that every image is brought to; by default the size that most images suggest.
        fit: how an image that is not square gets there: its middle is cut out, it is padded, or squashed.
        test: the share of each class that is kept for testing, where the data name no test part.
        group: what keeps images together in one part: a column of the CSV, or a regular expression on the file name
            whose first group is the key (patient, camera, burst).
        min_count: classes with fewer training images are dropped or merged into one, as ``small`` says; 0 keeps all.
        small: "drop" or "merge".
        plane: "resident" has all images in memory, "stream" reads each from its file when it is shown; "auto" streams
            what would not fit into memory, and the large benchmarks.
    """

    size: int | None = None
    fit: Fit = "crop"
    test: float = 0.2
    group: str | None = None
    min_count: int = 0
    small: Small = "drop"
    loader: LoaderKind = "auto"
