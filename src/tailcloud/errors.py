"""The errors that people meet: one sentence that names the thing, the value and the way out."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from traceback import walk_tb

PLUGIN_MODULES: set[str] = set()  # their mistakes are their authors' to mend
PLUGGABLE = {"part", "loss", "sampler", "head", "backbone", "method"}


class TailcloudError(Exception):
    """Something that the person at the keyboard can mend. The command line prints it and exits with ``exit_code``."""

    exit_code = 1


class UsageError(TailcloudError, ValueError):
    """A wrong name, value or combination: nothing was started."""

    exit_code = 2


class Elsewhere(TailcloudError):
    """This process ends because of what another one says; it has nothing to add."""


class TailcloudWarning(UserWarning):
    """Something that works, but that the caller should know."""


def explained(error: Exception) -> TailcloudError | None:
    """What went wrong with disks, memory or a plugin, as a sentence; None for an error that nobody foresaw."""
    if isinstance(error, TailcloudError):
        return error
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _says_memory(str(error).lower())):
        return TailcloudError(
            "there is not enough memory for this run; lower stage1.batch with --set, or choose a smaller model"
        )
    if not isinstance(error, OSError):
        sentence = plugin_sentence(error)
        return TailcloudError(sentence) if sentence else None
    place = error.filename or "a file"
    if error.errno == errno.ENOSPC:
        return TailcloudError(
            f"the disk is full: {place} could not be written; free some space, then go on with --resume"
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return TailcloudError(
            f"{place} may not be written or read here ({error.strerror}); choose another folder with --out or --root"
        )
    return TailcloudError(f"{place}: {error.strerror or error}")


def plugin_sentence(error: BaseException) -> str | None:
    """The line of a plugin that an error came through last, and what it says; None if it came through none."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not isinstance(error, TailcloudError) and said != type(error).__name__:
        said = f"{type(error).__name__}: {said}"
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] in PLUGIN_MODULES:
            return f"{frame.f_code.co_filename}, line {line}: {said}"
    return None


def _says_memory(text: str) -> bool:
    return "out of memory" in text or "cublas_status_alloc_failed" in text


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"? Known' if close else "known"
    own = f"; a {kind} of your own comes with --plugin FILE" if kind in PLUGGABLE else ""
    return UsageError(f'there is no {kind} "{name}"; {hint}: {", ".join(names)}{own}')
