"""What the command line says, and how."""

import logging
import sys

from rich.console import Console
from rich.markup import escape

from tailcloud.formatting import readable

out = Console(soft_wrap=True, highlight=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False)


_speaker = ""


def speak_as(name: str) -> None:
    """Let errors say who they are from, where several processes share a screen."""
    global _speaker  # noqa: PLW0603
    _speaker = f"{name}: "


def say_error(sentence: str) -> None:
    """The one sentence that a failed command ends with, on standard error."""
    errors.print(f"[bold red]error:[/] {_speaker}{escape(_harmless(sentence))}")


def say_note(sentence: str) -> None:
    """Something worth knowing that stops nothing, on standard error."""
    errors.print(f"[yellow]note:[/] {escape(_harmless(sentence))}")


def _harmless(sentence: str) -> str:
    """Without what could steer a terminal: a sentence may quote names from a stranger's file."""
    return "\n".join(map(readable, sentence.split("\n")))


def on_terminal() -> bool:
    """Whether a person watches: then there are bars that move, otherwise plain lines."""
    return sys.stdout.isatty()


class Notes(logging.Handler):
    """What the library logs while something takes long, as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it; what is no warning goes on."""
        say_note(record.getMessage() if record.levelno >= logging.WARNING else f"{record.getMessage()} …")


def pass_notes_on() -> None:
    """Let people see what the library logs."""
    logger = logging.getLogger("tailcloud")
    logger.setLevel(logging.INFO)
    logger.addHandler(Notes())
