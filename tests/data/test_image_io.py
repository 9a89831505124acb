"""Image files of every kind come out as the same pixels; broken and hostile ones as a sentence."""

import contextlib
import os
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tailcloud.data.image_io import SUFFIXES, Unreadable, read_header, read_image, read_image_at_size, resize_image

GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
COLOUR = np.stack([GREY, 255 - GREY, GREY // 2], axis=2)


def saved(path, array, mode=None, **options):
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path, **options)
    return path


def test_colour_and_grey_come_with_the_channels_that_are_asked_for(tmp_path):
    colour, grey = saved(tmp_path / "c.png", COLOUR), saved(tmp_path / "g.png", GREY)
    assert np.array_equal(read_image(colour, 3), COLOUR)
    assert np.array_equal(read_image(grey, 1)[..., 0], GREY)
    assert np.array_equal(read_image(grey, 3), np.repeat(GREY[..., None], 3, axis=2))
    expected = COLOUR @ np.array([0.299, 0.587, 0.114])
    assert np.abs(read_image(colour, 1)[..., 0] - expected).max() <= 1
    assert (read_header(colour).grey, read_header(grey).grey) == (False, True)


@pytest.mark.parametrize("suffix", ["bmp", "gif", "tif", "webp", "ppm", "jpg"])
def test_every_common_format_is_read(suffix, tmp_path):
    options = {"webp": {"lossless": True}, "jpg": {"quality": 100, "subsampling": 0}}.get(suffix, {})
    path = saved(tmp_path / f"c.{suffix}", COLOUR, **options)
    tolerance = {"gif": 30, "jpg": 8}.get(suffix, 0)
    assert np.abs(read_image(path, 3).astype(int) - COLOUR).max() <= tolerance
    assert path.suffix in SUFFIXES


def test_transparent_pixels_are_white(tmp_path):
    alpha = np.dstack([COLOUR, np.full_like(GREY, 255)])
    alpha[0, 0] = [10, 20, 30, 0]
    found = read_image(saved(tmp_path / "a.png", alpha), 3)
    assert found[0, 0].tolist() == [255, 255, 255]
    assert np.array_equal(found[1:], COLOUR[1:])
    both = np.dstack([GREY, np.full_like(GREY, 0)])
    Image.fromarray(both, "LA").save(tmp_path / "la.png")
    assert read_image(tmp_path / "la.png", 1).min() == 255


def test_palettes_are_read_as_colours_with_their_transparent_entry_white(tmp_path):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([200, 10, 10, 0, 0, 255])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "p.gif", transparency=1)
    found = read_image(tmp_path / "p.gif", 3)
    assert found[0, 0].tolist() == [200, 10, 10]
    assert found[0, 1].tolist() == [255, 255, 255]


def test_sixteen_bits_become_eight(tmp_path):
    deep = (GREY.astype(np.uint16) * 257) + 3
    for name in ("d.png", "d.tif"):
        saved(tmp_path / name, deep)
        assert np.array_equal(read_image(tmp_path / name, 1)[..., 0], GREY)
        assert read_header(tmp_path / name).grey


def test_a_large_sixteen_bit_picture_takes_a_few_bytes_a_pixel(tmp_path):
    path = saved(tmp_path / "d.png", np.full((2000, 1000), 257 * 7, np.uint16))
    tracemalloc.start()
    assert (read_image(path, 1) == 7).all()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 14 * 2_000_000  # beside what Pillow holds


def test_cmyk_is_converted(tmp_path):
    path = saved(tmp_path / "c.jpg", np.full((16, 16, 3), [200, 100, 50], np.uint8), "CMYK", quality=100)
    assert np.abs(read_image(path, 3)[8, 8].astype(int) - [200, 100, 50]).max() <= 3


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_pictures_are_turned_upright(orientation, suffix, tmp_path):
    """By the EXIF standard: where row 0 and column 0 of the stored image belong."""
    rows = [lambda a: a, lambda a: a[:, ::-1], lambda a: a[::-1, ::-1], lambda a: a[::-1]]
    upright = [
        *rows,
        *(lambda a, turn=turn: turn(np.swapaxes(a, 0, 1)) for turn in (rows[0], rows[1], rows[2], rows[3])),
    ]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / f"o.{suffix}", COLOUR, exif=exif)
    assert np.array_equal(read_image(path, 3), upright[orientation - 1](COLOUR))


def with_exif(path, block):
    """A JPEG with this EXIF block, byte for byte."""
    whole = saved(path, COLOUR, quality=95).read_bytes()
    content = b"Exif\0\0" + block
    path.write_bytes(whole[:2] + b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content + whole[2:])
    return path


def exif_block(*entries):
    """A TIFF block with one directory of (tag, type, count, value)."""
    rows = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + rows + struct.pack("<I", 0)


ORIENTATION = (0x0112, 3, 1, 6)


@pytest.mark.parametrize("block", [b"garbage", b"", exif_block(ORIENTATION)[:14], b"II*\0\xff\xff\xff\xff"])
def test_an_exif_block_that_cannot_be_read_is_ignored(block, tmp_path):
    assert read_image(with_exif(tmp_path / "e.jpg", block), 3).shape == (6, 8, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("damaged", [(0x011A, 5, 1, 99_999), (0x8769, 4, 1, 99_999), (0x927C, 7, 70_000, 99_999)])
def test_the_orientation_counts_even_if_the_rest_of_the_exif_block_is_damaged(damaged, tmp_path):
    assert read_image(with_exif(tmp_path / "e.jpg", exif_block(ORIENTATION, damaged)), 3).shape == (8, 6, 3)


def test_an_orientation_is_applied_even_if_pillow_cannot_write_the_exif_block_back(tmp_path):
    """Why ``ImageOps.exif_transpose`` is not used."""
    block = exif_block((0x010F, 3, 1, 7), ORIENTATION)  # a number where text belongs
    path = with_exif(tmp_path / "e.jpg", block)
    assert read_image(path, 3).shape == (8, 6, 3)


def test_a_small_copy_of_a_large_jpeg_is_the_large_one_scaled(tmp_path):
    smooth = np.linspace(0, 255, 400, dtype=np.float64)
    large = np.stack([np.add.outer(smooth, smooth) / 2] * 3, axis=2).astype(np.uint8)
    path = saved(tmp_path / "l.jpg", large, quality=95)
    assert min(read_image(path, 3, min_side=32).shape[:2]) in range(32, 400)
    near, exact = read_image_at_size(path, 3, (16, 16), "crop"), resize_image(read_image(path, 3), (16, 16), "crop")
    assert np.abs(near.astype(int) - exact).max() <= 4


@pytest.mark.parametrize("side", [1, 2, 3, 8])
def test_a_center_has_at_least_a_pixel(side, tmp_path):
    path = saved(tmp_path / "c.png", np.full((side, side), 9, np.uint8))
    assert (read_image_at_size(path, 1, (4, 4), "crop", keep=1e-9) == 9).all()


def test_a_picture_of_the_right_size_stays_as_it_is():
    assert resize_image(COLOUR, (6, 8), "crop") is COLOUR


def test_crop_takes_the_middle_pad_adds_black_and_squash_keeps_everything():
    wide = np.zeros((4, 8, 1), np.uint8)
    wide[:, 2:6], wide[:, 6:] = 100, 200
    assert (resize_image(wide, (4, 4), "crop") == 100).all()
    padded = resize_image(wide, (8, 8), "pad")
    assert (padded[2:6] == wide).all()
    assert (padded[:2] == 0).all()
    assert (padded[6:] == 0).all()
    squashed = resize_image(wide, (4, 4), "squash")[0, :, 0]
    assert squashed[0] < squashed[1] < squashed[2] < squashed[3]


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from([1, 3]),
    st.sampled_from(["crop", "pad", "squash"]),
)
def test_every_size_can_be_brought_to_every_other(rows, columns, height, width, channels, fit):
    result = resize_image(np.full((rows, columns, channels), 7, np.uint8), (height, width), fit)
    assert result.shape == (height, width, channels)
    assert result.max() == 7
    assert fit == "pad" or result.min() == 7


def bomb(path, width=60_000, height=60_000):
    """A PNG of a few hundred bytes that claims so many pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    with pytest.raises(Unreadable, match="89,478,485 pixels allowed"):
        read_image(bomb(tmp_path / "bomb.png"), 3)
    monkeypatch.setattr("tailcloud.data.image_io.MAX_PIXELS", 40)
    with pytest.raises(Unreadable, match="8×6 pixels are more than the 40 allowed"):
        read_image(saved(tmp_path / "c.png", COLOUR), 3)


@pytest.mark.parametrize("size", [(89_478_485, 1), (1, 89_478_485)])
def test_a_line_of_millions_of_pixels_is_unreadable_and_no_lack_of_memory(size, tmp_path):
    path = bomb(tmp_path / "line.png", *size)
    for read in (read_header, lambda path: read_image(path, 3)):
        with pytest.raises(Unreadable, match="a side is longer than 1,000,000"):
            read(path)


def test_whatever_is_no_image_gets_a_sentence(tmp_path):
    whole = saved(tmp_path / "c.jpg", np.repeat(np.repeat(COLOUR, 8, 0), 8, 1)).read_bytes()
    for name, content, why in [
        ("cut.jpg", whole[: len(whole) // 2], "truncated"),
        ("empty.png", b"", "it is empty .0 bytes."),
        ("text.png", b"hello", "not an image, or of an unsupported format"),
        ("photo.heic", b"ftypheic", "convert it to JPEG"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Unreadable, match=why):
            read_image(tmp_path / name, 3)
    with pytest.raises(Unreadable, match="does not exist"):
        read_image(tmp_path / "absent.png", 3)
    with pytest.raises(Unreadable, match="not a file"):
        read_image(tmp_path, 3)
    Image.fromarray(GREY.astype(np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(Unreadable, match="floating-point"):
        read_image(tmp_path / "f.tif", 1)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(Unreadable, match="not a file"):
        read_image(tmp_path / "pipe.png", 3)


def test_postscript_is_never_interpreted(tmp_path):
    (tmp_path / "evil.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(hacked) (w) file\n")
    with pytest.raises(Unreadable, match="not an image, or of an unsupported format"):
        read_image(tmp_path / "evil.jpg", 3)


@given(st.binary(max_size=300), st.integers(0, 200))
def test_garbage_is_an_image_or_unreadable_but_never_anything_else(tmp_path_factory, noise, at):
    folder = tmp_path_factory.mktemp("noise")
    content = bytearray(saved(folder / "c.png", COLOUR).read_bytes())
    content[at : at + len(noise)] = noise
    (folder / "n.png").write_bytes(content)
    with contextlib.suppress(Unreadable):
        assert read_image(folder / "n.png", 3).dtype == np.uint8
