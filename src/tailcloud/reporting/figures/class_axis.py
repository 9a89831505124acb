"""An axis of many classes: some of their names, from the most frequent to the rarest."""

from collections.abc import Sequence

from tailcloud.formatting import shortened
from tailcloud.reporting.figures.svg import Canvas, Scale

NAMES_ON_AXIS, LETTERS = 16, 22
LETTER = 7.0  # pixels


def class_axis(canvas: Canvas, x: Scale, y: Scale, names: Sequence[str]) -> None:
    """Names below the x axis, which has a unit for each class in order; the canvas grows as they need it."""
    last, count = len(names) - 1, min(NAMES_ON_AXIS, len(names))
    ranks = [round(place * last / max(1, count - 1)) for place in range(count)]
    words = [shortened(names[rank], LETTERS) for rank in ranks]
    room = LETTER * max(map(len, words))
    for rank, name in zip(ranks, words, strict=True):
        canvas.text((x(rank + 0.5), y.start + 8), name, "small", anchor="end", turned=True)
    title = f"{len(names):,} classes, most frequent first; {count} are named"
    canvas.text(((x.start + x.end) / 2, y.start + room + 28), title, "tick", anchor="middle")
    canvas.height = max(canvas.height, y.start + room + 36)
