"""Caches on disk: every file is compared with the checksums in it. Nothing is changed or removed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailcloud.data.loaders.cache import ABOUT, OpenCache, damaged, memory_folder, open_cache
from tailcloud.doctor.check import Check, Deadline, failing
from tailcloud.errors import TailcloudError
from tailcloud.files import read_json
from tailcloud.formatting import counted, magnitude, some_of
from tailcloud.training.features.feature_cache import SUFFIX, default_folder, read_feature_file

IMAGES_AT_ONCE = 256


def check_caches(folders: Sequence[Path], deadline: Deadline) -> list[Check]:
    """Check the default caches of features and of images in memory, and these folders of either."""
    found: list[Check] = []
    for folder in dict.fromkeys([default_folder(), memory_folder(), *folders]):
        with failing(str(folder), found.append):
            found += check_folder(folder, deadline)
    return found


def check_folder(folder: Path, deadline: Deadline) -> list[Check]:
    """Check everything in a folder that ``data.cache`` or ``data.feature_cache`` may name."""
    if not folder.is_dir():
        return [Check(str(folder), "not here", "no cache")]
    images = sorted(path.parent for path in folder.glob(f"*/{ABOUT}"))
    features = sorted(folder.glob(f"*/*{SUFFIX}"))
    checks = [check_images(place, deadline) for place in images]
    if features:
        checks.append(check_features(folder, features, deadline))
    return checks or [Check(str(folder), "ok", "it is empty")]


def check_features(folder: Path, files: Sequence[Path], deadline: Deadline) -> Check:
    """Compare files of features with their checksums."""
    broken, checked, size = list[str](), 0, 0
    for file in files:
        if not deadline.left:
            break
        try:
            size += file.stat().st_size
            broken += [] if read_feature_file(file) is not None else [str(file)]
        except FileNotFoundError:  # another process has just removed it
            continue
        checked += 1
    if broken:
        sentence = f"{counted(len(broken), 'file is', 'files are')} damaged ({some_of(broken)}); remove what is damaged"
        return Check(str(folder), "failed", f"{sentence}, and its features are computed again")
    found = f"features: {checked:,} of {counted(len(files), 'file')} checked, {magnitude(size)}B"
    return Check(str(folder), "ok" if checked else "left out", found)


def check_images(place: Path, deadline: Deadline) -> Check:
    """Compare the images of one cache with their checksums, as many as there is time for."""
    try:
        about = read_json(place / ABOUT)
        if "aspects" not in about:  # their checksum
            old = "an older version wrote it, and nothing reads it any more; remove that folder"
            return Check(str(place), "left out", old)
        cache = open_cache(place, shape_of(place, about))
        checked = check_rows(cache, deadline)
    except TailcloudError as damage:
        return Check(str(place), "failed", str(damage))
    found = f"images: {checked:,} of {len(cache.pixels):,} checked, {magnitude(cache.pixels.nbytes)}B"
    return Check(str(place), "ok" if checked else "left out", found)


def shape_of(place: Path, about: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of its images, as its own record says."""
    shape = about.get("shape")
    if not isinstance(shape, list) or not all(isinstance(length, int) and length > 0 for length in shape):
        raise damaged(place)
    return tuple(shape)


def check_rows(cache: OpenCache, deadline: Deadline) -> int:
    """How many images were checked in time, all of them whole."""
    rows = np.arange(len(cache.pixels))
    for start in range(0, len(rows), IMAGES_AT_ONCE):
        if not deadline.left:
            return start
        cache.check(rows[start : start + IMAGES_AT_ONCE])
    return len(rows)
