"""A small image as a data URI, so that a page needs no other file."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CHANNELS_OF_PNG = 4  # at most: grey, grey with alpha, RGB, RGB with alpha
CHANNELS_OF_JPEG = (1, 3)
JPEG_QUALITY = 82

JPEG_QUALITY = 80


def image_uri(pixels: NDArray[np.uint8], *, lossy: bool = False) -> str:
    """An image [H, W, C] as the data URI of a PNG, or of a JPEG, which has a third of the bytes, if it may be lossy.

    More than 4 channels are shown as their mean.
    """
    if lossy and pixels.shape[2] in CHANNELS_OF_JPEG:
        return _data_uri("jpeg", encode_jpeg(pixels))
    return _data_uri("png", encode_png(pixels))


def photo_uri(pixels: NDArray[np.uint8]) -> str:
    """A photograph [H, W, 3] as the data URI of a JPEG, which is several times smaller than a PNG."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """An image [H, W, C] as the content of a PNG file."""
    if pixels.shape[2] > CHANNELS_OF_PNG:
        pixels = pixels.mean(axis=2, keepdims=True).round().astype(np.uint8)
    file = io.BytesIO()
    _image(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


def encode_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """An image of 1 or 3 channels as the content of a JPEG file."""
    file = io.BytesIO()
    _image(pixels).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return file.getvalue()


def _image(pixels: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)  # Pillow knows grey as [H, W]


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
