"""Charts as SVG: a scale and a canvas.

Marks have class names and no colours: the style sheet colours them, so that one drawing serves screen and print, light
and dark. A mark that stands for something has a name, its ``<title>``: browsers show it under the pointer, and the
page's script (``marks.js``) also for the keyboard and for fingers.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH = 480.0
TICKS = 5  # on an axis, about
CROSS = 5.0
MAX_NAMED = 2000  # marks of a drawing that have a name each; with more, the page would be large
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True)
class Scale:
    """Maps data from ``low`` to ``high`` onto pixels from ``start`` to ``end``; values outside go to the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, here = (self._inner(bound) for bound in (self.low, self.high, value))
        share = (here - low) / (high - low) if high != low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _inner(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> list[float]:
        """Round values within the scale, about ``TICKS`` of them."""
        return self._log_ticks() if self.log else self._linear_ticks()

    def _linear_ticks(self) -> list[float]:
        step = round_step((self.high - self.low) / TICKS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(index * step, 10) for index in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        tens = [10.0**power for power in decades]
        fine = [factor * ten for ten in tens for factor in (1, 2, 5)]
        inside = [value for value in fine if self.low <= value <= self.high]
        return inside if len(inside) <= TICKS else [value for value in tens if self.low <= value <= self.high]


def round_step(size: float) -> float:
    """The nearest 1, 2 or 5 times a power of ten that is not below ``size``."""
    if size <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(size))
    return float(next(factor for factor in (1, 2, 5, 10) if factor * power >= size * 0.999) * power)


def tick_text(value: float) -> str:
    """The value of a tick: 5,000, 20, 0.25."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


@dataclass
class Canvas:
    """A drawing ``WIDTH`` wide; ``label`` is its alternative text for screen readers."""

    label: str
    height: float
    width: float = WIDTH
    marks: list[str] = field(default_factory=list)

    def line(self, points: Iterable[Point], css: str, name: str = "") -> None:
        """A line through points; a single point becomes a dot."""
        places = list(points)
        if len(places) == 1:
            self.dots(places, css, [name] if name else ())
        elif places:
            self._path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places), f"line {css}", name)

    def dots(self, points: Iterable[Point], css: str, names: Sequence[str] | str = ()) -> None:
        """Round dots, each with its own name, or all in one path with one name or none, which keeps the page small."""
        self._marks([f"M{x:.1f} {y:.1f}h0" for x, y in points], f"dot {css}", names)

    def crosses(self, points: Iterable[Point], css: str, name: str) -> None:
        """Small diagonal crosses, all in one path."""
        size, half = CROSS, CROSS / 2
        paths = [f"M{x - half:.1f} {y - half:.1f}l{size:g} {size:g}m0-{size:g}l-{size:g} {size:g}" for x, y in points]
        self._marks(paths, f"cross {css}", name)

    def area(self, points: Iterable[Point], css: str) -> None:
        """A filled polygon."""
        self._path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "z", f"fill {css}")

    def bars(self, boxes: Iterable[Box], css: str, names: Sequence[str] | str = ()) -> None:
        """Filled boxes, each with its own name, or all in one path."""
        self._marks([_box(*box) for box in boxes], f"fill {css}", names)

    def columns(self, x: Scale, y: Scale, names: Sequence[str]) -> None:
        """Invisible columns that share the width of a chart: the pointer finds the name of a place on its x axis."""
        names = names[:: max(1, round(len(names) / (x.end - x.start)))]  # narrower ones cannot be pointed at
        step = (x.end - x.start) / max(1, len(names))
        top, height = min(y.start, y.end), abs(y.start - y.end)
        boxes = [(x.start + place * step, top, step, height) for place in range(len(names))]
        self.bars(boxes, "column", names)

    def rule(self, start: Point, end: Point, css: str) -> None:
        """A straight line: grid, bound or mark."""
        self._path(f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}", css)

    def text(self, at: Point, words: str, css: str = "", *, anchor: str = "start", turned: bool = False) -> None:
        """Text; ``anchor`` is start, middle or end; ``turned`` text reads upwards."""
        place = f'x="{at[0]:.1f}" y="{at[1]:.1f}"'
        turn = f' transform="rotate(-90 {at[0]:.1f} {at[1]:.1f})"' if turned else ""
        self.marks.append(f'<text {place} class="{css}" text-anchor="{anchor}"{turn}>{escape(words)}</text>')

    def x_axis(self, x: Scale, y: Scale, ticks: Iterable[float] | None = None, title: str = "") -> None:
        """Vertical grid lines with their values below, and the title below these."""
        for value in x.ticks() if ticks is None else ticks:
            self.rule((x(value), y.start), (x(value), y.end), "grid")
            self.text((x(value), y.start + 17), tick_text(value), "tick", anchor="middle")
        if title:
            self.text(((x.start + x.end) / 2, y.start + 36), title, "tick", anchor="middle")

    def y_axis(self, x: Scale, y: Scale, title: str) -> None:
        """Horizontal grid lines with their values to the left, and the title left of these."""
        for value in y.ticks():
            self.rule((x.start, y(value)), (x.end, y(value)), "grid")
            self.text((min(x.start, x.end) - 7, y(value) + 4), tick_text(value), "tick", anchor="end")
        self.text((-4, (y.start + y.end) / 2), title, "tick", anchor="middle", turned=True)

    def svg(self) -> Markup:
        """The drawing."""
        head = f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(self.label)}">'
        return Markup(head + "".join(self.marks) + "</svg>")  # safe: all words went through escape

    def _marks(self, paths: Sequence[str], css: str, names: Sequence[str] | str) -> None:
        if not paths:
            return
        if isinstance(names, str) or not names or len(names) > MAX_NAMED:
            self._path("".join(paths), css, names if isinstance(names, str) else "")
            return
        named = "".join(f'<path d="{path}">{_title(name)}</path>' for path, name in zip(paths, names, strict=True))
        self.marks.append(f'<g class="{css}">{named}</g>')

    def _path(self, path: str, css: str, name: str = "") -> None:
        end = f">{_title(name)}</path>" if name else "/>"
        self.marks.append(f'<path class="{css}" d="{path}"{end}')


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.2f} {y:.2f}h{width:.2f}v{height:.2f}h{-width:.2f}z"


def _title(name: str) -> str:
    return f"<title>{escape(name)}</title>"


@dataclass(frozen=True)
class Figure:
    """A drawing with its heading, a caption that says how to read it, and a legend of (css class, text).

    A ``wide`` one has the whole width of the page, and is scrolled on a small screen.
    """

    title: str
    drawing: Markup
    caption: str
    legend: tuple[tuple[str, str], ...] = ()
    wide: bool = False
