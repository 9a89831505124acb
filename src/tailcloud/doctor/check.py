"""A check and its finding, and the time that all checks have."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tailcloud.errors import explained

Status = Literal["ok", "failed", "not here", "left out"]


@dataclass(frozen=True)
class Check:
    """One line of the page: what was checked, how it ended, and a sentence.

    "not here" is something that this machine does not have or cannot do, which is no failure; "left out" is a check for
    which there was no time. The sentence of a failed check has the way out.
    """

    name: str
    status: Status
    sentence: str


class Deadline:
    """The moment at which all checks should be done."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then; 0 if it has passed."""
        return max(0.0, self.end - time.monotonic())


def failure(error: Exception) -> str:
    """An error as a sentence: our own if there is one, otherwise that of Python."""
    known = explained(error)
    return str(known) if known else f"{type(error).__name__}: {error}"


@contextmanager
def failing(name: str, add: Callable[[Check], object]) -> Iterator[None]:
    """An error inside becomes a failed check."""
    try:
        yield
    except Exception as error:
        add(Check(name, "failed", failure(error)))
