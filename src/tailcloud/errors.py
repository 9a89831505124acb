"""The errors that people meet: one sentence that names the thing, the value and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class TailcloudError(Exception):
    """Something that the person at the keyboard can mend. The command line prints it and exits with ``exit_code``."""

    exit_code = 1


class UsageError(TailcloudError, ValueError):
    """A wrong name, value or combination: nothing was started."""

    exit_code = 2


class TailcloudWarning(UserWarning):
    """Something that works, but that the caller should know."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"? Known' if close else "known"
    return UsageError(f'there is no {kind} "{name}"; {hint}: {", ".join(names)}')
