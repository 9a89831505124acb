"""Duplicates: images with the same pixels, or nearly the same.

Nearly the same: difference hashes of 64 bits that differ in at most ``DISTANCE`` bits, and thumbnails that correlate by
``ALIKE`` or more (grey images, which differ less, by ``ALIKE_IN_GREY``). This finds copies that were saved again,
scaled, or made a little brighter. It does not find mirrored, rotated, squashed or cropped copies, nor other photographs
of the same thing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.image_io import Pixels

Vector = NDArray[np.int64]
Hashes = NDArray[np.uint64]

DISTANCE = 7  # bits
ALIKE, ALIKE_IN_GREY = 0.96, 0.99  # correlation
SIDE = 16  # pixels of a thumbnail
FLAT = 4.0  # levels of 255: a thumbnail that deviates less has hardly anything to compare
BLOCK = 1024  # images that are hashed at a time
MAX_COMPARED = 4000  # images of a bucket that each image is compared with
MAX_PAIRS = 200_000


@dataclass(frozen=True)
class Duplicates:
    """Pairs of images by number, the smaller first: ``same`` [n, 2] pixels, ``near`` [n, 2] the same.

    Of images with the same pixels each is paired with the first of them, and that one alone is compared with others.
    ``flat`` images have hardly any contrast and are compared for the same pixels only. ``curtailed``: so many images
    look alike that not all of them were compared.
    """

    same: Vector
    near: Vector
    flat: int = 0
    curtailed: bool = False

    def sets(self, images: int) -> Vector:
        """For each of ``images`` images, the first image that is connected to it by pairs."""
        first = list(range(images))

        def root(image: int) -> int:
            while first[image] != image:
                first[image] = image = first[first[image]]
            return image

        for one, other in np.concatenate([self.same, self.near]).tolist():
            low, high = sorted((root(one), root(other)))
            first[high] = low
        return np.array([root(image) for image in range(images)], np.int64)


def find_duplicates(arrays: Sequence[Pixels]) -> Duplicates:
    """The pairs among all images of some arrays [N, H, W, C], numbered from 0 through all arrays."""
    blocks = [_hashed(images[start : start + BLOCK]) for images in arrays for start in range(0, len(images), BLOCK)]
    if not blocks:
        return Duplicates(np.empty((0, 2), np.int64), np.empty((0, 2), np.int64))
    digests, hashes, thumbnails, flat = (np.concatenate(column) for column in zip(*blocks, strict=True))
    _, first, group = np.unique(digests, return_index=True, return_inverse=True)
    representative = first[group]
    copies = np.flatnonzero(representative != np.arange(len(digests)))
    alone = np.setdiff1d(np.flatnonzero(~flat), copies)
    alike = ALIKE_IN_GREY if arrays[0].shape[3] == 1 else ALIKE
    near, curtailed = _near(hashes[alone], thumbnails[alone], alike)
    same = np.stack([representative[copies], copies], axis=1)
    return Duplicates(same, alone[near], int(flat.sum()), curtailed)


def _hashed(images: Pixels) -> tuple[NDArray[np.bytes_], Hashes, NDArray[np.uint8], NDArray[np.bool_]]:
    """Digest, difference hash and thumbnail of each image, and whether it has hardly any contrast."""
    digests = [blake2b(np.ascontiguousarray(image).data, digest_size=16).digest() for image in images]
    thumbnails = scaled(images, SIDE, SIDE).reshape(len(images), -1)
    flat = thumbnails.std(axis=1) < FLAT
    return np.array(digests, "S16"), difference_hashes(images), np.rint(thumbnails).astype(np.uint8), flat


def difference_hashes(images: Pixels) -> Hashes:
    """64 bits per image [N, H, W, C]: in 8 rows of 9 grey values, whether each is darker than the one on its left."""
    grey = scaled(images, 8, 9).mean(axis=3)
    darker = grey[:, :, 1:] < grey[:, :, :-1]
    return np.packbits(darker.reshape(len(images), 64), axis=1).view(np.uint64).reshape(-1)


def scaled(images: Pixels, rows: int, columns: int) -> NDArray[np.float32]:
    """Images [N, H, W, C] averaged to [N, rows, columns, C]."""
    down, across = (_averaging(size, target) for size, target in zip(images.shape[1:3], (rows, columns), strict=True))
    count, height, width, channels = images.shape
    low = down @ images.reshape(count, height, width * channels).astype(np.float32)
    return np.asarray(across @ low.reshape(count, rows, width, channels), np.float32)


def _averaging(size: int, target: int) -> NDArray[np.float32]:
    """Weights [target, size]: each of ``target`` equal intervals is the mean of the pixels it covers."""
    edges = np.arange(target + 1) * size / target
    pixels = np.arange(size)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.maximum(covered, 0) * target / size, np.float32)


def _near(hashes: Hashes, thumbnails: NDArray[np.uint8], alike: float) -> tuple[Vector, bool]:
    """Pairs of near hashes whose thumbnails agree, each once."""
    found, pairs, curtailed = [np.empty((0, 2), np.int64)], 0, False
    for close, whole in candidates(hashes):
        curtailed |= not whole
        agreeing = close[_correlations(thumbnails, close) >= alike]
        found.append(agreeing)
        pairs += len(agreeing)
        if pairs > MAX_PAIRS:
            curtailed = True
            break
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0), curtailed


def candidates(hashes: Hashes) -> Iterator[tuple[Vector, bool]]:
    """Pairs of hashes that differ in at most ``DISTANCE`` bits, some more than once, and whether none was left out.

    Such a pair agrees in at least one of ``DISTANCE`` + 1 bands of bits: only hashes that share a band are compared.
    """
    edges = np.linspace(0, 64, DISTANCE + 2).astype(int).tolist()
    for low, high in pairwise(edges):
        band = (hashes >> np.uint64(low)) & np.uint64((1 << (high - low)) - 1)
        order = np.argsort(band, kind="stable")
        values, ordered = hashes[order], band[order]
        ends, places = np.searchsorted(ordered, ordered, side="right"), np.arange(len(order))
        for step in range(1, MAX_COMPARED + 1):
            places = places[places + step < ends[places]]
            if not len(places):
                break
            close = places[_within(values[places] ^ values[places + step])]
            yield np.stack([order[close], order[close + step]], axis=1), step < MAX_COMPARED


def _within(differing: Hashes) -> NDArray[np.bool_]:
    """Whether at most ``DISTANCE`` bits are set: each round clears the lowest one."""
    for _ in range(DISTANCE):
        differing = differing & (differing - (differing > 0))
    return np.asarray(differing == 0)


def _correlations(rows: NDArray[np.uint8], pairs: Vector) -> NDArray[np.float32]:
    one, other = (rows[pairs[:, side]].astype(np.float32) for side in (0, 1))
    one -= one.mean(axis=1, keepdims=True)
    other -= other.mean(axis=1, keepdims=True)
    norms = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    return np.asarray((one * other).sum(axis=1) / np.maximum(norms, 1e-6), np.float32)
