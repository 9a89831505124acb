"""Whether data fit into memory, with one error message for all readers."""

from math import isqrt
from pathlib import Path

from tailcloud.data.read_options import SMALLEST_SIZE
from tailcloud.errors import TailcloudError
from tailcloud.formatting import magnitude

COPIES = 2  # splits are cut out of the whole array, so both are in memory for a moment


def available_memory() -> int | None:
    """Free bytes of the machine, or of the container it runs in if that has fewer; None where this is unknown."""
    free = [_machine(), _container()]
    return min((value for value in free if value is not None), default=None)


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
    except (OSError, ValueError):  # no such group, or its limit is "max"
        return None


def shortage(size: int, what: str) -> str | None:
    """Why ``what``, of ``size`` bytes, does not fit into memory, as a clause; None if it fits or nothing is known."""
    needed, free = COPIES * size, available_memory()
    if free is None or needed <= free:
        return None
    return f"{what} need {magnitude(needed)}B of memory, and {magnitude(free)}B are free"


def image_shortage(images: int, size: int, channels: int) -> str | None:
    """``shortage`` of images with ``size`` pixels a side."""
    return shortage(images * size**2 * channels, f"{images:,} images at data.size = {size} with {channels} channels")


def check_images_fit(spec: str, images: int, size: int, channels: int) -> None:
    """Refuse images that do not fit into memory, and name the size at which they would."""
    reason, free = image_shortage(images, size, channels), available_memory()
    if reason is None or free is None:
        return
    largest = isqrt(free // (COPIES * images * channels))
    smaller = f"set data.size to {largest} or less, or " if largest >= SMALLEST_SIZE else ""
    raise TailcloudError(f"{spec}: {reason}; {smaller}use fewer images")
