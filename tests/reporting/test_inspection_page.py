"""The page about a data set: whole, small, and at ease on a laptop and on a phone."""

import numpy as np
import pytest

from helpers.browser_pipe import EVIL, OPEN_ALL, SIZES, STICKING_OUT, Browser, find_browser
from tailcloud.data.image_io import Header
from tailcloud.data.inspection.duplicates import find_duplicates
from tailcloud.data.inspection.survey import Survey
from tailcloud.errors import UsageError
from tailcloud.reporting.inspection_page import InspectionPlan, inspection_page, write_inspection

PROGRAM = find_browser()
PLAN = InspectionPlan(
    "tailcloud train --data 'my photos'", ["resnet20, for images of 64 pixels."], 'method = "gcl"\n' + "x" * 300
)


def made(names, images=600, size=(64, 64, 3), **more):
    """A survey of noise: one image in ten is a copy, of another class and in another part."""
    random = np.random.RandomState(0)
    pixels = random.randint(0, 256, (images, *size), dtype=np.uint8)
    pixels[-images // 10 :] = pixels[: images // 10]
    labels = np.minimum(random.geometric(min(0.5, 5 / len(names)), images) - 1, len(names) - 1)
    parts = ["train" if row < 0.8 * images else "test" for row in range(images)]
    files = [f"{parts[row]}/{names[labels[row]]}/IMG_{row:06}_a_rather_long_name.jpg" for row in range(images)]
    return Survey("my photos", names, labels, parts, files, [pixels], **more)


def page_of(survey):
    return inspection_page(survey, find_duplicates(survey.images), PLAN)


def test_pairs_across_parts_are_shown_as_pictures_and_all_are_listed():
    page = page_of(made(["cat", "lynx", "otter"]))
    assert page.count("<img ") == 24
    assert page.count("the same pixels</td>") == 60
    assert "All 60\u00a0pairs in a table" in page
    assert "60 of 120" in page


def test_a_thousand_classes_and_many_pairs_make_a_small_page():
    survey = made([f"species {number}" for number in range(1000)], images=9000, size=(16, 16, 3))
    survey.broken = {f"broken/{number}.jpg": "it is truncated" for number in range(2000)}
    page = page_of(survey)
    assert len(page.encode()) < 1_000_000
    assert "400 more are not listed" in page
    assert "1,500 more are not listed" in page


def test_data_without_readable_images_have_a_page_too():
    survey = Survey("data.npz", ["0", "4"], np.array([0, 0, 1]), ["train"] * 3, refusals=["data.npz is too large"])
    page = page_of(survey)
    assert "<li>data.npz is too large.</li>" in page
    assert "so nothing was compared" in page


def test_other_files_are_left_alone(tmp_path):
    survey = made(["cat", "lynx"], images=20, size=(8, 8, 1))
    found = find_duplicates(survey.images)
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(UsageError, match="choose another file with --html"):
        write_inspection(tmp_path / "mine.html", survey, found, None)
    with pytest.raises(UsageError, match=r"try --html .*mine.txt.html"):
        write_inspection(tmp_path / "mine.txt", survey, found, None)
    assert write_inspection(tmp_path, survey, found, None) == tmp_path / "inspection.html"


@pytest.mark.skipif(PROGRAM is None, reason="no browser: install chromium, or name one in CHROMIUM")
def test_nothing_sticks_out_and_a_stranger_can_run_nothing(tmp_path):
    names = [EVIL, "Archaeopteryx lithographica (Solnhofen, 1861)", "w" * 80, *(f"species {n}" for n in range(7))]
    survey = made(names, headers=[Header(48, 640, "RGB"), Header(64, 64, "I;16")], refusals=["w" * 200, EVIL])
    survey.broken = {"w" * 150 + ".jpg": "it is truncated"}
    (tmp_path / "page.html").write_text(page_of(survey))
    browser = Browser(PROGRAM, tmp_path / "browser")
    try:
        for width, height, phone in SIZES.values():
            browser.open(tmp_path / "page.html", width, height, phone=phone)
            browser.value(OPEN_ALL)
            assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert browser.value(STICKING_OUT) == []
            assert browser.value("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
            assert browser.value("typeof window.hacked") == "undefined"
            assert browser.complaints == []
    finally:
        browser.close()
