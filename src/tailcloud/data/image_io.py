"""Image files as arrays: any common format in, uint8 pixels of the wanted channels and size out."""

from collections.abc import Mapping
from functools import cache
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError

ImageArray = NDArray[np.uint8]  # one image: [H, W, channels]
Pixels = NDArray[np.uint8]  # several images: [N, H, W, channels]

SUFFIXES = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".jp2", ".avif"}
SUFFIXES |= {".ppm", ".pgm", ".pbm", ".pnm", ".heic", ".heif"}
# Only these are decoded: some of Pillow's other formats start programs (EPS), and a file could pretend to be one.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000", "AVIF")
MAX_PIXELS = 89_478_485  # Pillow's own limit against decompression bombs
MAX_SIDE = 1_000_000  # pixels; for a line of many millions Pillow raises MemoryError, however much memory there is
MISSING = "it does not exist"
LARGE = 2**24  # pixels; larger images are decoded one at a time, whatever the number of threads
GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N"}
TRANSPARENT_MODES = {"LA", "La", "PA", "RGBA", "RGBa"}
# Not ImageOps.exif_transpose: it fails if it cannot write the rest of a damaged EXIF block back.
TRANSPOSE_BY_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_one_large_at_a_time = Lock()


class Unreadable(TailcloudError):
    """A file that is not an image, or not a complete one; ``why`` says what is wrong with it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be read: {why}")
        self.path, self.why = path, why


class Header(NamedTuple):
    """Size and mode of an image, which are known before it is decoded."""

    height: int
    width: int
    mode: str

    @property
    def grey(self) -> bool:
        """Whether its mode has no colors."""
        return self.mode in GREY_MODES


def read_header(path: Path) -> Header:
    """Size and mode of an image file; sides are as stored, before the EXIF orientation is applied."""
    with _open(path) as image:
        return Header(image.height, image.width, image.mode)


def read_exif(path: Path) -> tuple[Mapping[int, Any], Mapping[int, Any]]:
    """The tags of the EXIF block of an image file, and those of its part on the photograph; no pixel is decoded.

    Both are empty if there is no such block, or a damaged one.

    Raises:
        Unreadable: not an image.
    """
    with _open(path) as image:
        try:
            if image.format == "PNG" and "exif" not in image.info:  # Pillow would decode it to look behind its pixels
                return {}, {}
            tags = image.getexif()
            return dict(tags), tags.get_ifd(ExifTags.IFD.Exif)
        except MemoryError:
            raise
        except Exception:  # a damaged EXIF block raises anything
            return {}, {}


def read_image(path: Path, channels: int, *, min_side: int | None = None) -> ImageArray:
    """The pixels of an image file, uint8 [H, W, channels] with 1 (grey) or 3 (red, green, blue) channels.

    The EXIF orientation is applied; of an animation the first frame is read. 16-bit values are divided by 257;
    transparent pixels become white. With ``min_side`` a JPEG may come at a half, a quarter or an eighth of its size,
    with both sides at least that many pixels, which is several times faster.

    Raises:
        Unreadable: not a regular file, not an image, not a complete one, or one of more than 89 million pixels, or of
            more than a million a side.
    """
    with _open(path) as image:
        try:
            if min_side:
                image.draft(None, (min_side, min_side))
            if image.width * image.height > LARGE:
                with _one_large_at_a_time:
                    return _pixels(path, image, channels)
            return _pixels(path, image, channels)
        except (MemoryError, Unreadable):
            raise
        except Exception as error:  # on a damaged file a decoder raises anything
            raise Unreadable(path, _reason(error)) from None


def read_image_at_size(path: Path, channels: int, size: tuple[int, int], fit: Fit, keep: float = 1.0) -> ImageArray:
    """An image file as a model takes it: center-cropped to ``keep``, then resized; decoded no finer than needed."""
    image = read_image(path, channels, min_side=decode_size(size, keep))
    return resize_image(center_crop(image, keep), size, fit)


def decode_size(size: tuple[int, int], keep: float) -> int:
    """The least pixels a side to which an image is decoded before it is resized to ``size``."""
    return ceil(2 * max(size) / keep)


def center_crop(image: ImageArray, keep: float) -> ImageArray:
    """The center of an image: a border is removed on all four sides, ``1 − keep`` of the shorter side in total."""
    if keep == 1.0:
        return image
    height, width = image.shape[:2]
    border = min(round((1 - keep) * min(height, width) / 2), (min(height, width) - 1) // 2)  # at least a pixel stays
    return image[border : height - border, border : width - border]


def resize_image(image: ImageArray, size: tuple[int, int], fit: Fit) -> ImageArray:
    """An image [H, W, channels] resized to ``size`` (height, width), bilinearly and without aliasing.

    ``crop`` scales the largest center crop that has the aspect ratio of ``size``; ``pad`` scales the whole image until
    it fits and adds black borders of the same width on both sides; ``squash`` scales each side separately.
    """
    (height, width), (rows, columns) = size, image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    scales = height / rows, width / columns
    inner, box = (width, height), (0.0, 0.0, float(columns), float(rows))
    if fit == "crop":
        across, down = width / max(scales), height / max(scales)
        left, top = max(0.0, (columns - across) / 2), max(0.0, (rows - down) / 2)
        box = left, top, min(columns, left + across), min(rows, top + down)
    elif fit == "pad":
        inner = max(1, round(columns * min(scales))), max(1, round(rows * min(scales)))
    source = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    scaled = np.asarray(source.resize(inner, Image.Resampling.BILINEAR, box=box))
    result = np.zeros((height, width, image.shape[2]), np.uint8)
    top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
    result[top : top + inner[1], left : left + inner[0]] = scaled.reshape(inner[1], inner[0], -1)
    return result


@cache
def _formats() -> tuple[str, ...]:
    """Those of ``FORMATS`` that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _open(path: Path) -> Image.Image:
    try:
        exists, is_file = path.exists(), path.is_file()
        empty = is_file and path.stat().st_size == 0
    except OSError as error:  # too long a name, or a folder that may not be read
        raise Unreadable(path, str(error.strerror)) from None
    if not is_file:  # reading from a pipe or a device might never end
        raise Unreadable(path, "it is not a file" if exists else MISSING)
    if empty:
        raise Unreadable(path, "it is empty (0 bytes)")
    if path.suffix.lower() in {".heic", ".heif"}:
        raise Unreadable(path, "HEIC is not supported; convert it to JPEG")
    try:
        image = Image.open(path, formats=_formats())
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file a decoder raises anything
        raise Unreadable(path, _reason(error)) from None
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise Unreadable(path, f"{image.width:,}×{image.height:,} pixels are more than the {MAX_PIXELS:,} allowed")
    if max(image.size) > MAX_SIDE:
        image.close()
        raise Unreadable(path, f"of {image.width:,}×{image.height:,} pixels, a side is longer than {MAX_SIDE:,}")
    return image


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image, or of an unsupported format"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than the {MAX_PIXELS:,} pixels allowed"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, OSError) and "truncated" in str(error).lower():
        return "it is truncated"
    return f"it is damaged ({(str(error) or type(error).__name__).splitlines()[0]})"


def _pixels(path: Path, image: Image.Image, channels: int) -> ImageArray:
    image.load()
    flat = image
    if image.mode == "F":
        raise Unreadable(path, "it has floating-point pixels; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65_535:
            raise Unreadable(path, "its pixels have more than 16 bits; save it with 8 or 16 bits")
        flat = Image.fromarray(((values.astype(np.int32) + 128) // 257).astype(np.uint8))
    elif image.mode in TRANSPARENT_MODES or "transparency" in image.info:
        rgba = image.convert("RGBA")
        flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    pixels = np.asarray(_oriented(image, flat).convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _oriented(source: Image.Image, image: Image.Image) -> Image.Image:
    """``image`` with the EXIF orientation of ``source`` applied; an EXIF block that cannot be read is ignored."""
    try:
        method = TRANSPOSE_BY_ORIENTATION.get(source.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # a damaged EXIF block raises anything
        method = None
    return image.transpose(method) if method is not None else image
