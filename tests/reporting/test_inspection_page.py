"""The page about a data set: whole, small, and at ease on a laptop and on a phone."""

import re

import numpy as np
import pytest

from helpers.browser_pipe import EVIL, OPEN_ALL, SIZES, STICKING_OUT
from helpers.drawing import draw_classes
from tailcloud.data import ReadOptions
from tailcloud.data.image_io import Header
from tailcloud.data.inspection.duplicates import find_duplicates
from tailcloud.data.inspection.survey import Survey
from tailcloud.data.inspection.survey import survey as survey_of
from tailcloud.errors import UsageError
from tailcloud.reporting.inspection_page import InspectionPlan, inspection_page, write_inspection

PLAN = InspectionPlan(
    "Training would take resnet20 from scratch, with gcl.",
    "tailcloud train --data 'my photos'",
    ["resnet20, for images of 64 pixels."],
    'method = "gcl"\n' + "x" * 300,
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
    assert page.count("<li><img ") == 24 + 3 * 6
    assert page.count('alt="train/cat/') >= 6
    assert page.count("the same pixels</td>") == 60
    assert "All 60\u00a0pairs in a table" in page
    assert "60 of 120" in page


def test_what_training_would_do_and_what_to_know_come_first():
    survey = made(["cat", "lynx"])
    page = inspection_page(survey, find_duplicates(survey.images), PLAN, ["Keep bursts: --set x."])
    words = (PLAN.sentence, "my photos&#39;</code>", "Keep bursts", "Key numbers</h2>")
    places = [page.index(each) for each in words]
    assert places == sorted(places)
    assert page.count("Keep bursts") == 1


def test_every_class_has_samples_the_rarest_too_and_those_between_are_folded():
    survey = made([f"species {number}" for number in range(60)], images=3000, size=(16, 16, 3))
    survey.labels = np.sort(np.arange(3000) ** 2 % 60)  # all of them, unequally
    counts = survey.counts()["train"]
    page = page_of(survey)
    cards = re.split(r'<li class="card">\n<h3>(?=species)', page.partition("Sample images of every class")[2])[1:]
    classes = [int(re.match(r"species (\d+)", card)[1]) for card in cards]
    assert sorted(classes) == list(range(60))
    assert [counts[c] for c in classes] == sorted(counts, reverse=True)
    images = [card.partition("</li>\n</ol>")[0].count("<img ") for card in cards]
    assert images == np.minimum(counts[classes], 6).tolist()
    assert "36\u00a0classes between</summary>" in page


def test_samples_of_photographs_stay_within_their_bytes():
    survey = made([f"species {number}" for number in range(90)], images=600, size=(64, 64, 3))  # noise packs badly
    survey.labels = np.arange(600) % 90
    page = page_of(survey)
    uris = re.findall(r'src="(data:image/jpeg[^"]*)"', page)
    assert 90 <= len(uris) < 4 * 90
    assert sum(map(len, uris)) < 1_200_000
    assert 'src="data' in page.partition("<h3>species 89 ")[2].partition("</ul>")[0]


def test_images_that_stay_in_their_files_are_sampled_too(tmp_path):
    draw_classes(tmp_path, {"cat": 40, "lynx": 3})
    (tmp_path / "cat" / "bad.png").write_text("no image")
    survey = survey_of(str(tmp_path), options=ReadOptions(loader="stream", size=8))
    assert survey.images == []
    page = page_of(survey)
    assert page.count("<img ") == 6 + 2
    assert 'title="lynx/' in page


def test_the_chart_names_classes_however_many_there_are():
    for number in (12, 40, 300):
        survey = made([f"species {at}" for at in range(number)], images=4000, size=(8, 8, 1))
        chart = page_of(survey).partition('<svg viewBox="0 0 480')[2].partition("</svg>")[0]
        order = np.argsort(-survey.counts()["train"], kind="stable")
        assert len(re.findall("<text[^>]*>species ", chart)) == min(number, 16)
        assert f">species {order[0]}<" in chart
        assert all(f"<title>species {at}: " in chart for at in range(number))


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


def test_nothing_sticks_out_and_a_stranger_can_run_nothing(browser, tmp_path):
    names = [EVIL, "Archaeopteryx lithographica (Solnhofen, 1861)", "w" * 80, *(f"species {n}" for n in range(7))]
    survey = made(names, headers=[Header(48, 640, "RGB"), Header(64, 64, "I;16")], refusals=["w" * 200, EVIL])
    survey.broken = {"w" * 150 + ".jpg": "it is truncated"}
    (tmp_path / "page.html").write_text(page_of(survey))
    for width, height, phone in SIZES.values():
        browser.open(tmp_path / "page.html", width, height, phone=phone)
        browser.value(OPEN_ALL)
        assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert browser.value(STICKING_OUT) == []
        assert browser.value("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        assert browser.value("typeof window.hacked") == "undefined"
        assert browser.complaints == []
