"""``tailcloud data verify`` for images in files: each is opened, and those that cannot be read are named in a file."""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tailcloud.cli.console import errors, out, say_note
from tailcloud.cli.prediction_output import no_formula
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import write_atomically
from tailcloud.formatting import counted, duration, readable, some_of

if TYPE_CHECKING:
    from tailcloud.data.image_io import Unreadable

HEAD = "path,reason"
SECONDS_BETWEEN_LINES = 10.0
NAMED = 3  # files in the sentence


class Interrupted(TailcloudError):
    """Somebody pressed Ctrl-C."""

    exit_code = 130


def verify_files(spec: str, root: Path, report: Path | None) -> None:
    """Check every file; a sentence and a report where some cannot be read."""
    from tailcloud.data.inspection.verify import broken_files, files_of

    place = report_place(spec, report)
    parts = files_of(spec, root)
    checked, broken = Checked(sum(len(part.names) for part in parts)), []
    try:
        with checked.shown():
            for error in broken_files(parts, checked):
                broken.append(error)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; {checked.done:,} of {spec}'s files were checked{_told(broken, place)}") from None
    if broken:
        raise TailcloudError(
            f"{spec}: {len(broken):,} of {counted(checked.total, 'file')} cannot be read{_told(broken, place)}"
        )
    if place.exists():
        write_report(place, [])
    out.print(f"OK: {spec} has {counted(checked.total, 'image file')}, all of them there and whole", markup=False)


def _told(broken: "list[Unreadable]", place: Path) -> str:
    """Write the report, or where it cannot be written, print it; which files are in it, and where it is."""
    if not broken:
        return ""
    named = some_of([f"{error.path} ({error.why})" for error in broken], NAMED)
    told = f": {named}; {'it is' if len(broken) == 1 else 'all of them are'} named"
    try:
        write_report(place, broken)
    except OSError as error:  # what may have taken hours to find is not lost
        for line in report_text(broken).splitlines():
            out.print(readable(line), markup=False, emoji=False)
        return f"{told} above, since {place} cannot be written ({error.strerror}); give another place with --report"
    return f"{told} in {place}"


def report_place(spec: str, report: Path | None) -> Path:
    """Where the report goes: beside the data by default; a file that is none of these reports is not overwritten."""
    path = Path(spec).expanduser()
    place = report or (path.parent if path.exists() else Path()) / f"{path.resolve().stem or 'images'}-broken.csv"
    if place.exists() and not _is_report(place):
        raise UsageError(f"{place} exists already and is no report of broken files; choose another name with --report")
    return place


def _is_report(place: Path) -> bool:
    if not place.is_file():
        return False
    with place.open("rb") as file:
        return file.read(len(HEAD)) == HEAD.encode()


def write_report(place: Path, broken: "list[Unreadable]") -> None:
    """Write the report, whole or not at all."""
    write_atomically(place, report_text(broken))


def report_text(broken: "list[Unreadable]") -> str:
    """A CSV of paths and reasons, in which no cell is a formula."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEAD.split(","))
    writer.writerows([no_formula(str(error.path)), no_formula(error.why)] for error in broken)
    return stream.getvalue()


class Checked:
    """How many files were checked: a bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.began = self.said = monotonic()
        self.bar: Callable[[int], None] | None = None

    def __call__(self, done: int, _: int) -> None:
        """So many are."""
        self.done = done
        if self.bar:
            self.bar(done)
        elif monotonic() - self.said >= SECONDS_BETWEEN_LINES:
            self.said = monotonic()
            say_note(self.words())

    def words(self) -> str:
        """Number, rate and time left."""
        rate = self.done / max(monotonic() - self.began, 1e-9)
        left = duration((self.total - self.done) / max(rate, 1e-9))
        return f"{self.done:,} of {self.total:,} files checked, {rate:,.0f} a second, {left} left"

    @contextmanager
    def shown(self) -> Iterator[None]:
        """With the bar on a terminal."""
        from rich.progress import BarColumn, Progress, TextColumn

        if not errors.is_terminal:
            yield
            return
        with Progress(BarColumn(), TextColumn("{task.description}"), console=errors, transient=True) as progress:
            task = progress.add_task("", total=self.total)
            self.bar = lambda done: progress.update(task, completed=done, description=self.words())
            yield
