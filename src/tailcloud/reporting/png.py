"""A picture as a PNG file, in the few lines that small pictures need."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels → PNG's colour type: grey, grey with alpha, RGB, RGB with alpha


def png(picture: NDArray[np.uint8]) -> bytes:
    """A picture [H, W, C] as a PNG file; of channels that no screen can show, the mean."""
    if picture.shape[2] not in COLOURS:
        picture = picture.mean(axis=2, keepdims=True).round().astype(np.uint8)
    height, width, channels = picture.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in picture)  # 0: the row as it is
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, content)
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    )


def data_uri(picture: NDArray[np.uint8]) -> str:
    """A picture to stand inside a page."""
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
