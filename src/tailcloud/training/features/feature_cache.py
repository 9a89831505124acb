"""Features on disk, image by image: whoever adds an image computes the features of that image alone.

FOLDER/KEY/*.safetensors has ``digests`` [n, 16] of the pixels and their ``features`` [n, D] as float16. KEY stands for
everything else that a feature depends on: weights, size, normalisation, view. Every session adds one file, and a file
appears when it is complete. The files that were used least recently are removed when there are too many bytes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tailcloud.data.image_io import Pixels
from tailcloud.data.loaders.cache import locked
from tailcloud.files import FORMAT, expand_home, write_atomically

Digests = list[bytes]
HalfFeatures = NDArray[np.float16]

DIGEST_BYTES = 16
LARGEST_CACHE = 4 << 30  # bytes
SUFFIX = ".safetensors"


def default_folder() -> Path:
    """Where features are kept: below $TAILCLOUD_CACHE, $XDG_CACHE_HOME/tailcloud or ~/.cache/tailcloud."""
    if own := os.environ.get("TAILCLOUD_CACHE"):
        return Path(own) / "features"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tailcloud" / "features"


def cache_of(setting: str, note: Callable[[str], None]) -> "FeatureCache | None":
    """The cache of ``data.feature_cache``: "auto", "none" or a folder."""
    if setting == "none":
        return None
    return FeatureCache(default_folder() if setting == "auto" else expand_home(setting), note)


def pixel_digests(images: Pixels) -> Digests:
    """A digest for each image [N, H, W, C], of its pixels."""
    return [blake2b(np.ascontiguousarray(image).data, digest_size=DIGEST_BYTES).digest() for image in images]


class KnownFeatures:
    """The features in the files of one key."""

    def __init__(self, digests: Digests, features: HalfFeatures) -> None:
        self.rows, self.features = {digest: row for row, digest in enumerate(digests)}, features

    def find(self, digests: Digests) -> tuple[list[int], HalfFeatures]:
        """Which of these images are known, as positions, and their features."""
        found = [position for position, digest in enumerate(digests) if digest in self.rows]
        return found, self.features[[self.rows[digests[position]] for position in found]]


class FeatureCache:
    """A folder of features. A cache that cannot be read or written is noted once and then not used any more.

    Args:
        folder: where the files are.
        note: receives a sentence about trouble.
        limit: the most bytes of all files together.
    """

    def __init__(self, folder: Path, note: Callable[[str], None], *, limit: int = LARGEST_CACHE) -> None:
        self.folder, self.note, self.limit = folder, note, limit
        self.usable = True

    @contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        """Other processes wait meanwhile that need the same features, and then read them."""
        with ExitStack() as lock:
            if self.usable:
                with self.watched():
                    self.folder.mkdir(parents=True, exist_ok=True)
                    lock.enter_context(locked(self.folder / key))
            yield

    def load(self, key: str, length: int) -> KnownFeatures:
        """Everything that is known of features of that ``length``; a damaged file is removed."""
        digests: Digests = []
        parts = [np.zeros((0, length), np.float16)]
        with self.watched():
            for path in sorted((self.folder / key).glob(f"*{SUFFIX}")):
                if (content := self._read(path, length)) is not None:
                    digests += [digest.tobytes() for digest in content[0]]
                    parts.append(content[1])
        return KnownFeatures(digests, np.concatenate(parts))

    def _read(self, path: Path, length: int) -> tuple[NDArray[np.uint8], HalfFeatures] | None:
        try:
            content = read_feature_file(path)
        except FileNotFoundError:  # another process has just removed it
            return None
        if content is not None and content[1].shape[1] == length:
            os.utime(path)
            return content
        self.note(f"{path} in the cache of features is damaged; it is removed, and its features are computed again.")
        path.unlink(missing_ok=True)
        return None

    def store(self, key: str, digests: Digests, features: HalfFeatures) -> None:
        """Add a file; then remove those that were used least recently if there are too many bytes."""
        if not digests or not self.usable:
            return
        packed = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)
        about = {"format": str(FORMAT), "sum": _sum(packed, features)}
        content = save({"digests": packed, "features": np.ascontiguousarray(features)}, about)
        with self.watched():
            write_atomically(self.folder / key / f"{uuid4().hex}{SUFFIX}", content)
            self._trim()

    def _trim(self) -> None:
        files = [(path, path.stat()) for path in self.folder.glob("*/*") if path.exists()]
        surplus = sum(status.st_size for _, status in files) - self.limit
        for path, status in sorted(files, key=lambda file: file[1].st_mtime):
            if surplus <= 0:
                return
            path.unlink(missing_ok=True)
            surplus -= status.st_size

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Trouble with the disk is noted, and the cache is not used any more."""
        try:
            yield
        except OSError as error:
            self.usable = False
            self.note(
                f"The cache of features in {self.folder} cannot be used ({error.strerror or error}); they are computed "
                'and not kept. Set TAILCLOUD_CACHE to another folder, or data.feature_cache = "none".'
            )


def read_feature_file(path: Path) -> tuple[NDArray[np.uint8], HalfFeatures] | None:
    """The digests [n, 16] and features [n, D] of a file; None if it is damaged."""
    try:
        with safe_open(path, "np") as file:
            digests, features, about = file.get_tensor("digests"), file.get_tensor("features"), file.metadata()
        whole = digests.shape == (len(features), DIGEST_BYTES) and features.ndim == 2 and features.dtype == np.float16
        return (digests, features) if whole and about["sum"] == _sum(digests, features) else None
    except (SafetensorError, KeyError, TypeError):
        return None


def _sum(digests: NDArray[np.uint8], features: HalfFeatures) -> str:
    """A checksum of a file's content."""
    both = blake2b(np.ascontiguousarray(digests).data, digest_size=DIGEST_BYTES)
    both.update(np.ascontiguousarray(features).data)
    return both.hexdigest()
