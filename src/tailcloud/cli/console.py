"""The consoles of the command line, and how notes and errors are printed."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from tailcloud.formatting import readable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress


class StreamConsole(Console):
    """Standard output or standard error. Its reader may leave, as ``head`` does: then the command ends.

    If ``outlives_reader`` is set, the command continues instead, and what it prints goes nowhere.
    """

    outlives_reader = False

    def on_broken_pipe(self) -> None:
        """The reader has left."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)
        if not self.outlives_reader:
            raise SystemExit(1)
        if not self.stderr:
            print_note("Standard output was closed by its reader; the command continues without it.")


# without emoji: ":100:" is a part of names such as cifar10-lt:100:x
out = StreamConsole(soft_wrap=True, highlight=False, emoji=False)
errors = StreamConsole(stderr=True, soft_wrap=True, highlight=False, emoji=False)

_error_prefix = ""
_live_displays = 0


def outlive_readers() -> None:
    """Continue if the reader of standard output or error leaves: the command trains, and its results are files."""
    out.outlives_reader = errors.outlives_reader = True


def prefix_errors(name: str) -> None:
    """Put the name of this process before its errors, if several share a terminal."""
    global _error_prefix  # noqa: PLW0603
    _error_prefix = f"{name}: "


def print_error(sentence: str) -> None:
    """Print the sentence that a failed command ends with, on standard error."""
    errors.print(f"[bold red]error:[/] {_error_prefix}{escape(_without_control_characters(sentence))}")


def print_note(sentence: str) -> None:
    """Print a note on standard error; above the progress bars, if the terminal shows some."""
    console = out if _live_displays and sys.stderr.isatty() else errors
    console.print(f"[yellow]note:[/] {escape(_without_control_characters(sentence))}")


@contextmanager
def live_display(display: "Live | Progress") -> Iterator[None]:
    """Show bars or a table on ``out`` that redraw themselves.

    Only text on the same console is printed above them; text on another console would break the drawing. Notes
    therefore go to ``out`` meanwhile.
    """
    global _live_displays  # noqa: PLW0603
    with display:
        _live_displays += 1
        try:
            yield
        finally:
            _live_displays -= 1


def _without_control_characters(sentence: str) -> str:
    """A sentence may quote names from a file of unknown origin, which must not control the terminal."""
    return "\n".join(map(readable, sentence.split("\n")))


def on_terminal() -> bool:
    """Whether standard output is a terminal: then there are progress bars, otherwise plain lines."""
    return sys.stdout is not None and sys.stdout.isatty()


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        out.print(line.rstrip(), markup=False)


class NoteHandler(logging.Handler):
    """Prints what the library logs as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; below level WARNING it is work in progress and ends in "…"."""
        print_note(record.getMessage() if record.levelno >= logging.WARNING else f"{record.getMessage()} …")


def print_log_as_notes() -> None:
    """Print what the library logs at level INFO or above."""
    logger = logging.getLogger("tailcloud")
    logger.setLevel(logging.INFO)
    logger.addHandler(NoteHandler())
