"""Image files as arrays: any common kind in, uint8 pixels of the wanted channels and size out."""

from functools import cache
from math import ceil
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError

Picture = NDArray[np.uint8]  # [H, W, channels]

SUFFIXES = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".jp2", ".avif"}
SUFFIXES |= {".ppm", ".pgm", ".pbm", ".pnm", ".heic", ".heif"}
# Others can start programs (EPS) or are no photographs; what Pillow takes for an image is not for a stranger to say.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000", "AVIF")
MOST_PIXELS = 89_478_485  # Pillow's own bound against decompression bombs
NOT_THERE = "it is not there"
LARGE = 2**24  # pixels; larger pictures are decoded one at a time, whatever the number of threads
GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N"}
SEE_THROUGH = {"LA", "La", "PA", "RGBA", "RGBa"}
TURNS = {
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
    """A file that is no image, or not a whole one."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be read: {why}")
        self.path, self.why = path, why


class Header(NamedTuple):
    """What a file says about its image before anything is decoded."""

    height: int
    width: int
    mode: str

    @property
    def grey(self) -> bool:
        """Whether its kind has no colours at all."""
        return self.mode in GREY_MODES


def read_header(path: Path) -> Header:
    """Size and mode of an image file; sides are as stored, before it is turned upright."""
    with _opened(path) as image:
        return Header(image.height, image.width, image.mode)


def read_picture(path: Path, channels: int, *, enough: int | None = None) -> Picture:
    """The pixels of an image file, uint8 [H, W, channels] with 1 (grey) or 3 (red, green, blue) channels.

    The picture is turned upright as its EXIF orientation says; of an animation it is the first frame. 16-bit values are
    divided by 257; what is transparent shows white. With ``enough`` a JPEG may come at a half, a quarter or an eighth
    of its size, with both sides at least ``enough`` pixels: that is several times faster.

    Raises:
        Unreadable: no regular file, no image, not a whole one, or one of more than 89 million pixels.
    """
    with _opened(path) as image:
        try:
            if enough:
                image.draft(None, (enough, enough))
            if image.width * image.height > LARGE:
                with _one_large_at_a_time:
                    return _pixels(path, image, channels)
            return _pixels(path, image, channels)
        except (MemoryError, Unreadable):
            raise
        except Exception as error:  # on a damaged file a decoder raises anything
            raise Unreadable(path, _reason(error)) from None


def picture_at(path: Path, channels: int, size: tuple[int, int], fit: Fit, keep: float = 1.0) -> Picture:
    """An image file as a model takes it: ``fitted(middle(…))``, decoded no finer than is needed for that."""
    return fitted(middle(read_picture(path, channels, enough=enough_for(size, keep)), keep), size, fit)


def enough_for(size: tuple[int, int], keep: float = 1.0) -> int:
    """To how many pixels a side a picture is decoded at least, before it is brought to a size."""
    return ceil(2 * max(size) / keep)


def middle(picture: Picture, keep: float) -> Picture:
    """The middle of a picture: ``1 − keep`` of its shorter side is cut away in equal parts, of both sides as much."""
    if keep == 1.0:
        return picture
    height, width = picture.shape[:2]
    border = round((1 - keep) * min(height, width) / 2)
    return picture[border : height - border, border : width - border]


def fitted(picture: Picture, size: tuple[int, int], fit: Fit) -> Picture:
    """A picture [H, W, channels] brought to ``size`` (height, width), bilinearly and without aliasing.

    ``crop`` cuts the largest middle part with the aspect of ``size`` out of it and scales that; ``pad`` scales the
    whole picture until it fits and fills the rest with black, the same on both sides; ``squash`` scales each side by
    itself.
    """
    (height, width), (rows, columns) = size, picture.shape[:2]
    if (rows, columns) == (height, width):
        return picture
    scales = height / rows, width / columns
    inner, box = (width, height), (0.0, 0.0, float(columns), float(rows))
    if fit == "crop":
        across, down = width / max(scales), height / max(scales)
        left, top = max(0.0, (columns - across) / 2), max(0.0, (rows - down) / 2)
        box = left, top, min(columns, left + across), min(rows, top + down)
    elif fit == "pad":
        inner = max(1, round(columns * min(scales))), max(1, round(rows * min(scales)))
    image = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
    scaled = np.asarray(image.resize(inner, Image.Resampling.BILINEAR, box=box))
    result = np.zeros((height, width, picture.shape[2]), np.uint8)
    top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
    result[top : top + inner[1], left : left + inner[0]] = scaled.reshape(inner[1], inner[0], -1)
    return result


@cache
def _formats() -> tuple[str, ...]:
    """Those of the formats that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _opened(path: Path) -> Image.Image:
    try:
        there, is_file = path.exists(), path.is_file()
    except OSError as error:  # too long a name, or a folder that may not be looked into
        raise Unreadable(path, str(error.strerror)) from None
    if not is_file:  # a pipe or a device could keep a reader waiting for ever
        raise Unreadable(path, "it is not a file" if there else NOT_THERE)
    if path.suffix.lower() in {".heic", ".heif"}:
        raise Unreadable(path, "HEIC is not supported; convert it to JPEG")
    try:
        image = Image.open(path, formats=_formats())
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file a decoder raises anything
        raise Unreadable(path, _reason(error)) from None
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise Unreadable(path, f"{image.width:,}×{image.height:,} pixels are more than the {MOST_PIXELS:,} allowed")
    return image


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known kind"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than the {MOST_PIXELS:,} pixels allowed"
    if isinstance(error, PermissionError):
        return "it may not be read"
    if isinstance(error, OSError) and "truncated" in str(error).lower():
        return "it is truncated"
    return f"it is damaged ({(str(error) or type(error).__name__).splitlines()[0]})"


def _pixels(path: Path, image: Image.Image, channels: int) -> Picture:
    image.load()
    flat = image
    if image.mode == "F":
        raise Unreadable(path, "it holds floating-point numbers; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65_535:
            raise Unreadable(path, "its values take more than 16 bits; save it with 8 or 16")
        flat = Image.fromarray(((values.astype(np.int32) + 128) // 257).astype(np.uint8))
    elif image.mode in SEE_THROUGH or "transparency" in image.info:
        clear = image.convert("RGBA")
        flat = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    pixels = np.asarray(_upright(image, flat).convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _upright(source: Image.Image, image: Image.Image) -> Image.Image:
    """The image turned as the EXIF data of its source ask for; damaged EXIF data ask for nothing."""
    try:
        turn = TURNS.get(source.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # EXIF blocks are damaged in as many ways as images
        turn = None
    return image.transpose(turn) if turn is not None else image
