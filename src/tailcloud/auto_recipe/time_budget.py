"""The option ``--time-budget``: 90s, 10m or 1h30m."""

import re

from tailcloud.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600}
MAX_SECONDS = 1000 * 3600


def parse_budget(text: str) -> float:
    """Seconds of "90s", "10m", "1.5h" or "1h30m"."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'--time-budget "{text}" is not a time; write for example 90s, 10m, 1.5h or 1h30m')
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f'--time-budget "{text}" must be more than 0 s and at most {MAX_SECONDS // 3600}h')
    return seconds
