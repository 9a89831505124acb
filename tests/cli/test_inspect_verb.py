"""``tailcloud inspect``: a folder with everything that can be wrong with it, on the terminal and as a page."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from helpers import bad_inputs
from tailcloud.cli import app

EVIL = "[bold]<script>alert(1)<"


def command(words):
    """The exit code, and all that was said, with plain spaces."""
    result = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    return result.exit_code, result.output.replace("\u00a0", " ")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder ``photos`` with a copy across parts, a look-alike of another class, and a broken file."""
    monkeypatch.chdir(tmp_path)
    random = np.random.RandomState(0)
    for part, name, count in [("train", "cat", 30), ("train", EVIL, 3), ("test", "cat", 12), ("test", EVIL, 2)]:
        folder = Path("photos", part, name)
        folder.mkdir(parents=True)
        for number in range(count):
            coarse = Image.fromarray(random.randint(0, 256, (6, 6, 3), dtype=np.uint8))
            coarse.resize((40, 30), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
    Path("photos/test/cat/copy.png").write_bytes(Path("photos/train/cat/4.png").read_bytes())
    Image.open("photos/train/cat/7.png").save(f"photos/train/{EVIL}/again.jpg", quality=80)
    Path("photos/train/cat/bad.jpg").write_text("no image")
    return Path("photos")


def test_a_size_is_shown_only_where_training_would_not_choose_it(photos):
    """Without data.size, training chooses one; what the inspection read at is of no interest."""
    for file in photos.rglob("*.png"):
        Image.open(file).resize((120, 90)).save(file)
    for words, shown in (("", False), (" --set data.size=16", True)):
        code, said = command(f"inspect photos --no-plan{words}")
        assert code == 0, said
        assert ("16×16×3" in said, "images, 2 classes" in said) == (shown, not shown)
        assert "Images are read at" not in said


def test_a_folder_is_shown_with_all_that_is_wrong(photos):
    code, said = command("inspect photos --no-plan")
    assert code == 0, said
    assert "34 training and 15 test images, 2 classes, 30 to 4 images each" in said
    assert "smallest, median, largest: 40×30, 40×30, 40×30" in said
    assert "train/cat/bad.jpg: it is not an image, or of an unsupported format" in said
    pairs = [line for line in said.splitlines() if line.startswith("  train") and ") " in line]
    assert pairs[0] == "  train/cat/4.png (training, cat) = test/cat/copy.png (test, cat)"
    assert f"train/{EVIL}/again.jpg (training, {EVIL}) ≈ train/cat/7.png (training, cat)" in pairs[1]
    assert "1 of 15 test images (6.7 %) is in training too" in said
    assert "one of the labels may be wrong" in said
    assert "What training would do" not in said


def test_the_plan_is_that_of_training(photos):
    code, said = command("inspect photos --set data.size=8")
    before, _, plan = said.partition("What training would do")
    assert "Timing a few steps" in before
    assert code == 0, said
    assert "resnet8, for images of 8 pixels." in plan
    assert "on this machine" in plan
    assert "tailcloud train --data photos --set data.size=8" in plan


def test_built_in_data_have_their_own_recipe():
    code, said = command("inspect digits-lt")
    assert code == 0, said
    assert "for these data: gcl with resnet" in said
    assert "on this machine" in said


def test_the_page_has_it_all_and_runs_nothing(photos):
    code, said = command("inspect photos --set data.size=8 --html page.html")
    page = Path("page.html").read_text()
    assert code == 0, said
    assert "page: page.html" in said
    assert EVIL not in page
    assert page.count("<script>") == 1
    for words in ("test/cat/copy.png", "train/cat/bad.jpg", "two classes", "in two splits", "not find mirrored"):
        assert words in page, words
    assert page.count("<img ") == page.count("data:image/png;base64,") == 4 + 6 + 4  # pairs, and samples
    assert page.index("Training would take resnet8 from scratch") < page.index("Key numbers</h2>")
    assert "data.size" not in page.partition("The recipe</summary>")[2].partition("tailcloud train")[0]
    assert command("inspect photos --no-plan --html page.html")[0] == 0  # a page of tailcloud is replaced


def test_what_training_refuses_is_named_and_the_rest_shown(photos):
    Path("photos/test/yak").mkdir()
    Path("photos/test/yak/1.png").write_bytes(Path("photos/train/cat/4.png").read_bytes())
    code, said = command("inspect photos --html page.html")
    assert code == 0, said
    assert "note: Training would not start: photos: class yak in test, but without a training image" in said
    assert "What training would do" not in said
    assert "2 of 16 test images" in said
    assert "Training would not start</h2>" in Path("page.html").read_text()


def test_a_decompression_bomb_is_a_broken_file(photos):
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)), (b"IDAT", b""), (b"IEND", b"")]
    lines = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    Path("photos/train/cat/bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(lines))
    code, said = command("inspect photos --no-plan")
    assert code == 0, said
    assert "train/cat/bomb.png: it has more than the 89,478,485 pixels allowed" in said


def test_long_lists_are_cut_on_the_terminal_and_whole_on_the_page(photos):
    for number in range(14):
        Path(f"photos/train/cat/copy {number}.png").write_bytes(Path("photos/train/cat/4.png").read_bytes())
    code, said = command("inspect photos --no-plan --html page.html")
    assert code == 0, said
    assert "and 6 more; --html FILE lists them" in said
    assert "All 16\u00a0pairs in a table" in Path("page.html").read_text()


def test_the_page_shows_no_size_that_training_would_not_take_and_counts_the_same_images(photos):
    Path("photos/train/cat/cut.png").write_bytes(Path("photos/train/cat/5.png").read_bytes()[:-600])
    for words, shown in (("", False), (" --set data.size=16", True)):
        code, said = command(f"inspect photos --no-plan --html page.html{words}")
        assert code == 0, said
        assert ("Size after reading" in Path("page.html").read_text()) == shown
        assert "34 training and 15 test images" in said
        assert "not square: 49 of 49" in said


def test_the_whole_file_system_is_no_folder_of_images():
    code, said = bad_inputs.command("inspect --no-plan /")
    assert code == 2
    assert "/ is the whole file system; give the folder that has the folders of the classes" in said
