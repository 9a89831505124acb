"""A time budget as people write it."""

import re

from tailcloud.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600}
LONGEST = 1000 * 3600


def parse_budget(text: str) -> float:
    """Seconds of "90s", "10m", "1.5h" or "1h30m"."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'--time-budget "{text}" should be a time such as 90s, 10m, 1.5h or 1h30m')
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not 0 < seconds <= LONGEST:
        raise UsageError(f'--time-budget "{text}" should be more than nothing and at most {LONGEST // 3600}h')
    return seconds
