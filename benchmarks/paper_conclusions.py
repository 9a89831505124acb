"""What the paper concludes from its tables 3, 4 and 5, held against the runs of this repository.

A conclusion is that one row of a table is above another one. Runs of the same seed are compared. It holds where the
mean of the differences is above zero by more than their deviation over seeds and by more than a fifth of a point, which
is twenty test images; as far below zero, it is the other way around.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tailcloud.bench import FilledTable
from tailcloud.bench.filled_table import TableCell
from tailcloud.formatting import counted, number
from tailcloud.reporting.tables import MethodRow, Summary, gain, markdown, paired

Verdict = Literal["holds", "within the spread", "the other way around", "open"]
HEADER = ("the paper's conclusion", "published", "here", "")
NEGLIGIBLE = 0.2  # points
CLAIMS = {
    "cloud-size": (
        ("gcl-cben", "gcl-pow4-cben"),
        ("gcl-pow4-cben", "gcl-pow3-cben"),
        ("gcl-pow3-cben", "gcl-cos-cben"),
        ("gcl", "gcl-pow4"),
        ("gcl-pow4", "gcl-pow3"),
        ("gcl-pow3", "gcl-cos"),
    ),
    "sampling": (("gcl-cben", "gcl-en"), ("gcl-en", "gcl"), ("gcl", "gcl-ib")),
    "retraining": (
        ("gcl-cben", "gcl-stage1"),
        ("gcl+lws-cben", "gcl-stage1"),
        ("gcl+tau-norm", "gcl-stage1"),
        ("gcl-cben", "gcl+lws-cben"),
        ("gcl-cben", "gcl+tau-norm"),
    ),
}


@dataclass(frozen=True)
class Conclusion:
    """One row above another one."""

    above: TableCell
    below: TableCell

    @property
    def words(self) -> str:
        """CBEN is better than EN."""
        return f"{self.above.row.label} is better than {self.below.row.label}"

    @property
    def published(self) -> str:
        """By how many points, if the paper has both rows."""
        one, other = self.above.reference, self.below.reference
        return "–" if one is None or other is None else number(one.value - other.value, 2, signed=True)

    @property
    def measured(self) -> Summary | None:
        """Points by seed; None where the two rows have no seeds, or not the same ones."""
        rows = [MethodRow(cell.row.label, cell.results) for cell in (self.above, self.below)]
        return gain(rows[0], rows[1], "top1") if all(row.results for row in rows) and paired(*rows) else None

    @property
    def verdict(self) -> Verdict:
        """Whether it holds here; open without at least two seeds of both."""
        points = self.measured
        if points is None or points.mean is None or points.std is None:
            return "open"
        if abs(points.mean) <= max(points.std, NEGLIGIBLE):
            return "within the spread"
        return "holds" if points.mean > 0 else "the other way around"

    def line(self) -> list[str]:
        """The conclusion as a row of words."""
        points = self.measured
        here = "–" if points is None else f"{points.text(digits=2, signed=True)} ({counted(points.n, 'seed')})"
        return [self.words, self.published, here, self.verdict]


def conclusions(filled: FilledTable) -> list[Conclusion]:
    """What the paper concludes from a table; nothing for the others."""
    (spec,) = filled.table.columns if filled.table.name in CLAIMS else ("",)
    cells = {cell.row.key: cell for cell in filled.column(spec)}
    return [Conclusion(cells[above], cells[below]) for above, below in CLAIMS.get(filled.table.name, ())]


def parts(filled: FilledTable) -> Iterator[str]:
    """A short table under a table of the paper, once anything of it was measured."""
    found: Sequence[Conclusion] = conclusions(filled)
    if any(one.measured for one in found):
        yield (
            "Which of the paper's conclusions hold here? In points, mean ± deviation of the differences seed by seed;\n"
            f"what is not above the deviation and {NEGLIGIBLE:g} points is within the spread.\n"
        )
        yield markdown(HEADER, [one.line() for one in found])
        yield ""
