"""Files and lists as they come: what docs/data.md says of each fault, with both loaders."""

import os

import numpy as np
import pytest
from PIL import Image

from helpers.drawing import draw, draw_classes
from tailcloud.cli.data import app
from tailcloud.data import ReadOptions, open_dataset
from tailcloud.data.file_images import FileImages
from tailcloud.errors import TailcloudError, UsageError

LOADERS = pytest.mark.parametrize("loader", ["resident", "stream"])


def opened(path, loader, **options):
    return open_dataset(str(path), options=ReadOptions(loader=loader, size=8, **options))


def pixels_of(data):
    """The middle pixel of every image by the name of its file; None where it cannot be read."""
    found = {}
    for part in (data.train, data.test):
        streamed = isinstance(part.images, FileImages)
        names = part.images.names if streamed else part.names
        for row, name in enumerate(names):
            try:
                image = part.images.read(row)[0] if streamed else part.images[row]
            except TailcloudError as error:
                found[name] = error.why
            else:
                found[name] = image[4, 4].tolist()
    return found


@pytest.fixture
def photos(tmp_path):
    """Sixty images, so that three that cannot be read are not too many."""
    return draw_classes(tmp_path / "photos", {"cat": 60})


def missing(path):
    path.unlink()
    path.symlink_to(path.with_name("nowhere.png"))


def loop(path):
    path.unlink()
    path.symlink_to(path)


def truncated(path):
    random = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(random).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:-800])


BROKEN = {
    "it does not exist": (missing, loop),
    "it is empty (0 bytes)": (lambda path: path.write_bytes(b""),),
    "it is not an image, or of an unsupported format": (lambda path: path.write_bytes(b"hello"),),
    "it is truncated": (truncated,),
}


@LOADERS
@pytest.mark.parametrize(("why", "damage"), [(why, damage) for why, several in BROKEN.items() for damage in several])
def test_a_file_that_cannot_be_read_is_left_out_or_replaced_and_named(photos, loader, why, damage):
    damage(photos / "cat" / "0.png")
    data = opened(photos, loader)
    assert any(f"1 of {60 if loader == 'resident' else 48} images cannot be read" in remark for remark in data.remarks)
    assert any(f"cat/0.png ({why})" in remark for remark in data.remarks)
    assert pixels_of(data).get("cat/0.png") == (None if loader == "resident" else why)


@LOADERS
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Image.fromarray(np.full((8, 8), 257 * 200, np.uint16)), [200, 200, 200]),
        (lambda: Image.new("CMYK", (8, 8), (0, 255, 255, 0)), [255, 0, 0]),
        (lambda: Image.new("RGBA", (8, 8), (9, 9, 9, 0)), [255, 255, 255]),
    ],
    ids=["16 bits", "CMYK", "transparent"],
)
def test_kinds_of_pixels_become_red_green_and_blue(photos, loader, make, expected):
    image = make()
    image.save(photos / "cat" / "0.png", "JPEG" if image.mode == "CMYK" else "PNG")
    assert np.allclose(pixels_of(opened(photos, loader))["cat/0.png"], expected, atol=4)


@LOADERS
def test_of_an_animation_the_first_frame_is_read(photos, loader):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(photos / "cat" / "0.gif", save_all=True, append_images=frames[1:])
    assert pixels_of(opened(photos, loader))["cat/0.gif"] == [255, 0, 0]


@LOADERS
def test_a_name_that_is_no_text_is_read(photos, loader):
    draw(photos / "cat" / os.fsdecode(b"caf\xe9.png"), (7, 8, 9))
    assert [7, 8, 9] in pixels_of(opened(photos, loader)).values()


@LOADERS
def test_folders_that_lead_back_are_followed_once(photos, loader):
    (photos / "cat" / "again").symlink_to(photos / "cat")
    assert len(pixels_of(opened(photos, loader))) == 60


def rows(numbers, label=lambda number: 0):
    return [f"photos/cat/{number}.png {label(number)}" for number in numbers]


def listed(photos, lines, newline="\n", end="\n", encoding="utf-8"):
    file = photos.parent / "list.txt"
    file.write_bytes((newline.join(lines) + end).encode(encoding))
    return file


@LOADERS
@pytest.mark.parametrize(
    "writing",
    [
        {"newline": "\r\n", "end": "\r\n"},
        {"encoding": "utf-8-sig"},
        {"end": "\n\n  \n"},
        {"end": ""},
    ],
    ids=["CRLF", "BOM", "blank last lines", "no newline at the end"],
)
def test_lists_of_every_editor_say_the_same(photos, loader, writing):
    plain = opened(listed(photos, rows(range(20), lambda n: n % 3)), loader)
    other = opened(listed(photos, rows(range(20), lambda n: n % 3), **writing), loader)
    assert other.fingerprint == plain.fingerprint
    assert other.class_names == ["0", "1", "2"]


@LOADERS
def test_labels_may_be_negative_and_have_gaps(photos, loader):
    data = opened(listed(photos, rows(range(20), lambda n: (-1, 7, 100_000)[n % 3])), loader)
    assert data.class_names == ["-1", "7", "100000"]
    assert data.train.labels.max() == 2


@LOADERS
def test_lines_twice_count_once_and_may_not_disagree(photos, loader):
    data = opened(listed(photos, rows([*range(20), 3, 4])), loader)
    assert len(data.train) + len(data.test) == 20
    assert "2\u00a0lines left out, because an earlier line lists the same image." in data.remarks
    with pytest.raises(UsageError, match=r"photos/cat/3.png .*label.*line 4 .*line 21"):
        opened(listed(photos, [*rows(range(20)), *rows([3], lambda _: 5)]), loader)


@LOADERS
def test_ones_own_list_may_lead_anywhere(photos, loader):
    far = draw(photos.parent.parent / "far" / "x.png", (1, 2, 3))
    near = draw(photos / "dog" / "y.png", (4, 5, 6))
    lines = [*rows(range(20)), f"{near} 0", f"../{far.relative_to(photos.parent.parent)} 0"]
    found = pixels_of(opened(listed(photos, lines), loader))
    assert [1, 2, 3] in found.values()
    assert [4, 5, 6] in found.values()


@LOADERS
def test_a_list_in_another_encoding_is_refused(photos, loader):
    with pytest.raises(UsageError, match="is not UTF-8 text; save it as UTF-8"):
        opened(listed(photos, ["photos/caf\u00e9.png 0"], encoding="latin-1"), loader)


def test_every_fault_is_found_by_verify(photos):
    from typer.testing import CliRunner

    for number, damage in enumerate(damage for several in BROKEN.values() for damage in several):
        damage(photos / "cat" / f"{number}.png")
    said = str(CliRunner().invoke(app, ["verify", str(photos)]).exception)
    assert "5 of 60\u00a0files cannot be read" in said
