"""A small image as a data URI, so that a page needs no other file."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CHANNELS_OF_PNG = 4  # at most: grey, grey with alpha, RGB, RGB with alpha

JPEG_QUALITY = 80


def image_uri(pixels: NDArray[np.uint8]) -> str:
    """An image [H, W, C] as the data URI of a lossless PNG; more than 4 channels are shown as their mean."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels)).decode()}"


def photo_uri(pixels: NDArray[np.uint8]) -> str:
    """A photograph [H, W, 3] as the data URI of a JPEG, which is several times smaller than a PNG."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """An image [H, W, C] as the content of a PNG file."""
    if pixels.shape[2] > CHANNELS_OF_PNG:
        pixels = pixels.mean(axis=2, keepdims=True).round().astype(np.uint8)
    if pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]  # Pillow knows grey as [H, W]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()
