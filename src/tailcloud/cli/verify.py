"""``tailcloud data verify`` for image files: every file is decoded, and broken ones are listed in a CSV report."""

import csv
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tailcloud.cli.console import errors, out, print_note
from tailcloud.csv_cells import no_formula
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import expand_home, write_atomically
from tailcloud.formatting import counted, duration, readable, some_of

if TYPE_CHECKING:
    from tailcloud.data.image_io import Unreadable

REPORT_HEADER = ["path", "reason"]
SECONDS_BETWEEN_LINES = 10.0
MAX_NAMED = 3  # files in the error message


class VerifyInterrupted(TailcloudError):
    """Ctrl-C was pressed; the exit status is that of SIGINT."""

    exit_code = 130


def verify_files(spec: str, root: str, report: Path | None) -> None:
    """Decode every image file of ``spec``; if some cannot be read, write a report and raise an error."""
    from tailcloud.data.inspection.verify import broken_files, files_of

    file = report_file(spec, report)
    splits = files_of(spec, root)
    progress, broken = VerifyProgress(sum(len(split.names) for split in splits)), []
    try:
        with progress.shown():
            for error in broken_files(splits, progress):
                broken.append(error)
    except KeyboardInterrupt:
        raise VerifyInterrupted(
            f"interrupted; {progress.done:,} of the files of {spec} were checked{_reported(broken, file)}"
        ) from None
    if broken:
        raise TailcloudError(
            f"{spec}: {len(broken):,} of {counted(progress.total, 'file')} cannot be read{_reported(broken, file)}"
        )
    if file.exists() and _is_report(file):
        write_report(file, [])
    out.print(f"OK: {spec} has {counted(progress.total, 'image file')}, and all can be read", markup=False)


def _reported(broken: "list[Unreadable]", file: Path) -> str:
    """Write the report, or print it if it cannot be written; the end of the error message."""
    if not broken:
        return ""
    named = some_of([f"{error.path} ({error.why})" for error in broken], MAX_NAMED)
    try:
        write_report(file, broken)
    except OSError as error:  # finding these files may have taken hours
        for line in report_text(broken).splitlines():
            out.print(readable(line), markup=False, emoji=False)
        return (
            f": {named}; the full list is above, because {file} cannot be written ({error.strerror}); "
            "pass another file with --report"
        )
    return f": {named}; the full list is in {file}"


def report_file(spec: str, report: Path | None) -> Path:
    """The path of the report: next to the data by default; only an earlier report is overwritten."""
    path = expand_home(spec)
    file = report or (path.parent if path.exists() else Path()) / f"{path.resolve().stem or 'images'}-broken.csv"
    if file.exists() and not _is_report(file):
        raise UsageError(f"{file} exists and is not a report of broken files; pass another file with --report")
    return file


def _is_report(file: Path) -> bool:
    """Whether a file is a report as tailcloud writes it: one with further columns has somebody's notes."""
    if not file.is_file():
        return False
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = csv.reader(stream, strict=True)
            return next(rows, None) == REPORT_HEADER and all(len(row) == len(REPORT_HEADER) for row in rows)
    except (UnicodeDecodeError, csv.Error):
        return False


def write_report(file: Path, broken: "list[Unreadable]") -> None:
    """Write the report atomically; a file that appeared while images were checked is not replaced."""
    if file.exists() and not _is_report(file):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
    write_atomically(file, report_text(broken))


def report_text(broken: "list[Unreadable]") -> str:
    """A CSV of paths and reasons, without cells that a spreadsheet would run as a formula."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(REPORT_HEADER)
    writer.writerows([no_formula(str(error.path)), no_formula(error.why)] for error in broken)
    return stream.getvalue()


class VerifyProgress:
    """How many files were checked: a bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.started = self.last_line = monotonic()
        self.update_bar: Callable[[int], None] | None = None

    def __call__(self, done: int, _: int) -> None:
        """``done`` files were checked."""
        self.done = done
        if self.update_bar:
            self.update_bar(done)
        elif monotonic() - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = monotonic()
            print_note(self.text())

    def text(self) -> str:
        """Number, rate and time left."""
        rate = self.done / max(monotonic() - self.started, 1e-9)
        left = duration((self.total - self.done) / max(rate, 1e-9))
        return f"{self.done:,} of {self.total:,} files checked, {rate:,.0f} a second, {left} left"

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar on a terminal."""
        from rich.progress import BarColumn, Progress, TextColumn

        if not errors.is_terminal:
            yield
            return
        with Progress(BarColumn(), TextColumn("{task.description}"), console=errors, transient=True) as progress:
            task = progress.add_task("", total=self.total)
            self.update_bar = lambda done: progress.update(task, completed=done, description=self.text())
            yield
