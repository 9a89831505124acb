"""Errors for users: one sentence with the thing, the value and the way out."""

import errno
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from traceback import walk_tb

PLUGIN_MODULES: set[str] = set()  # errors in these are reported with file and line
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")
MUCH_ALIKE = 0.85  # of difflib: "hat" and "hats"
COMPARED_BY_LETTER = 20
NUMBER = re.compile("[0-9]+")
PLUGGABLE = {"part", "loss", "sampler", "head", "backbone", "method", "second stage"}


class TailcloudError(Exception):
    """An error that the user can fix. The command line prints it and exits with ``exit_code``."""

    exit_code = 1


class UsageError(TailcloudError, ValueError):
    """A wrong name, value or combination; nothing was started."""

    exit_code = 2


class SilentExit(TailcloudError):
    """Ends this process without a message: another process of the run prints the error."""


class TailcloudWarning(UserWarning):
    """A warning for users."""


def explained(error: Exception) -> TailcloudError | None:
    """An error of disk, memory or plugin as a sentence for the user; None for an unexpected error."""
    if isinstance(error, TailcloudError):
        return error
    if _is_memory(error):
        return TailcloudError(
            "not enough memory; end other programs or, if this was training, lower stage1.batch with --set or choose a "
            "smaller model"
        )
    if loop := _link_to_itself(error):
        return TailcloudError(f"{loop} is a link that leads back to itself; remove it, or name another file or folder")
    if isinstance(error, OSError):
        return _of_system(error)
    sentence = plugin_sentence(error)
    return TailcloudError(sentence) if sentence else None


def unexpected(error: Exception) -> TailcloudError:
    """The sentence for an error that nobody has thought of. With TAILCLOUD_DEBUG the error itself is raised.

    Its traceback is not kept: the frames would keep memory of a run alive.
    """
    if os.environ.get("TAILCLOUD_DEBUG"):
        raise error
    return TailcloudError(
        f"this should not have happened ({type(error).__name__}: {error}); please report it, with what "
        "TAILCLOUD_DEBUG=1 in front of the same command prints"
    )


def _of_system(error: OSError) -> TailcloudError:
    place = error.filename or "a file"
    if error.errno == errno.ENOSPC:
        return disk_full(error, then="run the command again")
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return TailcloudError(
            f"{place} cannot be read or written ({error.strerror}); choose another folder with --out or --root"
        )
    if error.errno == errno.ENAMETOOLONG:
        return TailcloudError(f"{place} is too long a name for this system; choose a shorter one")
    return TailcloudError(f"{place}: {error.strerror or error}")


def plugin_sentence(error: BaseException) -> str | None:
    """An error with the file and line of the plugin that raised it; None if no plugin is involved."""
    message = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not isinstance(error, TailcloudError) and message != type(error).__name__:
        message = f"{type(error).__name__}: {message}"
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] in PLUGIN_MODULES:
            return f"{frame.f_code.co_filename}, line {line}: {message}"
    return None


def disk_full(error: OSError, *, then: str) -> TailcloudError:
    """The sentence for a file that did not fit on its disk; ``then`` is what to do after some space is free."""
    place = error.filename or "a file"
    return TailcloudError(f"the disk is full: {place} could not be written; free some space, then {then}")


def _link_to_itself(error: Exception) -> str | None:
    """The link at which an error of the system, or of ``Path.resolve``, stopped; None for other errors."""
    if isinstance(error, OSError):
        return (error.filename or "a file") if error.errno == errno.ELOOP else None
    found = (
        re.fullmatch(r"Symlink loop from '(.*)'", str(error), re.DOTALL) if isinstance(error, RuntimeError) else None
    )
    return found[1] if found else None


def _is_memory(error: Exception) -> bool:
    """Whether memory ran out: PyTorch raises a RuntimeError for that, the system an OSError."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    said = str(error).lower() if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or any(words in said for words in OUT_OF_MEMORY)


def other_spellings(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """The known name that each of ``names`` probably means, where there is one.

    Both differ in case, spaces and signs, or in a letter or two, but not in a number. Only the first
    ``COMPARED_BY_LETTER`` names are compared letter by letter, which takes time.
    """
    plain = {_plain(each): each for each in known}
    found, others = dict[str, str](), []
    for name in names:
        same = plain.get(_plain(name))
        if same is not None and NUMBER.findall(same) == NUMBER.findall(name):
            found[name] = same
        elif same is None:
            others.append(name)
    for name in others[:COMPARED_BY_LETTER]:
        candidates = [each for each in plain if NUMBER.findall(each) == NUMBER.findall(_plain(name))]
        if close := get_close_matches(_plain(name), candidates, n=1, cutoff=MUCH_ALIKE):
            found[name] = plain[close[0]]
    return found


def _plain(name: str) -> str:
    """A name without its case, spaces and signs."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name, with the closest known one."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"? Known' if close else "known"
    own = f"; add your own {kind} with --plugin FILE" if kind in PLUGGABLE else ""
    return UsageError(f'there is no {kind} "{name}"; {hint}: {", ".join(names)}{own}')
