"""How much memory is free, and whether images fit into it."""

from math import isqrt
from pathlib import Path

from tailcloud.errors import TailcloudError
from tailcloud.formatting import magnitude

COPIES = 2  # parts are cut out of the whole, and both are there for a moment
SMALLEST = 4  # pixels a side


def available_memory() -> int | None:
    """Bytes that can still be taken, by the machine and by the container it runs in; None where that is unknown."""
    found = [_machine(), _container()]
    return min((value for value in found if value is not None), default=None)


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _container() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        return int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such group, or its bound is "max"
        return None


def shortage(images: int, size: int, channels: int) -> str | None:
    """What images would take and what is free, where that is too little."""
    needed, free = COPIES * images * size**2 * channels, available_memory()
    if free is None or needed <= free:
        return None
    taken = f"{images:,} images, which take {magnitude(needed)}B at data.size = {size} and {channels} channels"
    return f"{taken}, and {magnitude(free)}B of memory are free"


def check_fits(spec: str, images: int, size: int, channels: int) -> None:
    """Refuse images that would not fit into memory, with the size at which they would."""
    short, free = shortage(images, size, channels), available_memory()
    if short is None or free is None:
        return
    largest = isqrt(free // (COPIES * images * channels))
    way_out = f"set data.size to {largest} or less, or " if largest >= SMALLEST else ""
    raise TailcloudError(f"{spec} has {short}; {way_out}take a part of the images")
