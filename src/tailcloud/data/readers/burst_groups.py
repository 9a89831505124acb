"""Bursts: photographs that one camera took within seconds of each other, by their EXIF blocks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tailcloud.data.exif import Capture, read_captures
from tailcloud.data.splits import Vector
from tailcloud.errors import UsageError
from tailcloud.formatting import counted

BURST_SECONDS = 30.0  # between a photograph and the one before it
BURST = f"same camera, at most {BURST_SECONDS:g} s apart"


def burst_groups(paths: Sequence[Path]) -> Vector:
    """The burst of each file, as ``find_bursts`` numbers them.

    Raises:
        UsageError: no file says when it was taken.
    """
    captures = read_captures(paths)
    if not any(captures):
        raise UsageError(
            f'data.group = "exif" needs times of capture, and none of {counted(len(paths), "file")} has one in its '
            "EXIF data; leave data.group out"
        )
    return find_bursts(captures)


def find_bursts(captures: Sequence[Capture | None]) -> Vector:
    """For each photograph the first one of its burst: its own number if it is alone, or its time is unknown.

    A burst is photographs of one camera, each taken at most ``BURST_SECONDS`` after the one before it.
    """
    first = np.arange(len(captures))
    bursts: list[list[int]] = []
    before: Capture | None = None
    for capture, row in sorted((capture, row) for row, capture in enumerate(captures) if capture):
        if not (before and before.camera == capture.camera and capture.seconds - before.seconds <= BURST_SECONDS):
            bursts.append([])
        bursts[-1].append(row)
        before = capture
    for burst in bursts:
        first[burst] = min(burst)
    return first
