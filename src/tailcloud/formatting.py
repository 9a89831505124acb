"""Formatting of numbers, times and names for people. A missing value is "n/a", never NaN."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

NOT_MEASURED = "n/a"
INVALID_BYTE = re.compile("[\ud800-\udfff]")  # how Python holds a byte of a file name that is not UTF-8


def number(value: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """92.6, or +8.0 and −0.3 when signed."""
    if value is None:
        return NOT_MEASURED
    rounded = round(value, digits) + 0.0  # no negative zero
    return f"{rounded:{'+' if signed else ''},.{digits}f}".replace("-", "−")


def percent(value: float | None) -> str:
    """92.6 %, with a space that does not break."""
    return NOT_MEASURED if value is None else f"{number(value)}\u00a0%"


def whole(value: float | None) -> str:
    """77,824."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def magnitude(value: float | None) -> str:
    """69.8 M: three digits and a unit."""
    if value is None:
        return NOT_MEASURED
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}\u00a0{unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """4.9 s, 3 min 20 s or 2 h 5 min."""
    if seconds is None:
        return NOT_MEASURED
    if seconds < 60:
        return f"{seconds:.1f}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    return f"{minutes // 60}\u00a0h {minutes % 60}\u00a0min"


def moment(text: str | None) -> str:
    """2026-11-15 09:00 UTC; text that is not a time stays unchanged."""
    if not text:
        return NOT_MEASURED
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return text


def counted(count: int, one: str, several: str | None = None) -> str:
    """1 class, 4 classes."""
    return f"{count:,}\u00a0{one if count == 1 else several or one + 's'}"


def shortened(text: str, length: int = 12) -> str:
    """A name cut to a length, with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def short_names(names: Sequence[str], length: int = 12) -> list[str]:
    """Names cut to a length; those that would then be equal keep their start and their end."""
    cut = [shortened(name, length) for name in names]
    twice = {name for name, times in Counter(cut).items() if times > 1}
    start = length // 3
    return [
        f"{name[:start]}…{name[start + 1 - length :]}" if one in twice and len(name) > length else one
        for name, one in zip(names, cut, strict=True)
    ]


def readable(text: str) -> str:
    """A name from a file or a user, with control characters and invalid bytes replaced."""
    if text.isprintable():
        return text
    kept = (c if c.isprintable() or unicodedata.category(c) in {"Zs", "Cf"} else "\ufffd" for c in text)
    return "".join(kept)


def composed(text: str) -> str:
    """A name with each accent and its letter as one character (NFC): names of files from macOS have them apart."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def one_line(text: str) -> str:
    """A text as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def markdown_text(text: str) -> str:
    """A text as one line of Markdown without markup, HTML or links: names are untrusted."""
    return re.sub(r"([\\`*_\[\]#!|~@$]|:(?=//)|^[-+=])", r"\\\1", html.escape(one_line(text), quote=False))


def valid_text(text: str) -> str:
    """Text that can be written as UTF-8: each invalid byte of a file name becomes "\ufffd", nothing else changes."""
    return text if text.isascii() else INVALID_BYTE.sub("\ufffd", text)


def some_of(names: Sequence[str], limit: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"
