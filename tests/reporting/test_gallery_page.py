"""The page of predictions: the least certain of each class, bounded, and at ease on a laptop and on a phone."""

import os
from itertools import product
from pathlib import Path
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest
from PIL import Image

from helpers.browser_pipe import EVIL, OPEN_ALL, SIZES, STICKING_OUT
from helpers.html_page import Page
from tailcloud.errors import UsageError
from tailcloud.reporting import gallery_page
from tailcloud.reporting.gallery_page import Gallery, LeastCertain, gallery_path
from tailcloud.serving.predict import FilePrediction


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three photographs, wide, high and tiny, in a folder of an odd name."""
    folder = tmp_path_factory.mktemp("my photos ") / 'a"b\udcff#?'
    folder.mkdir()
    for name, size in {"wide.jpg": (120, 300, 3), "high.png": (300, 100, 3), "tiny.png": (8, 8, 3)}.items():
        Image.fromarray(np.random.default_rng(0).integers(0, 256, size, np.uint8)).save(folder / name)
    return sorted(folder.iterdir())


def filled(photos, names, per_class=5, threshold=0.6):
    gallery = Gallery(names, threshold=threshold)
    for number, place in product(range(per_class), range(len(names))):
        probability = 0.5 + 0.49 * number / per_class
        others = [(names[(place + step) % len(names)], (1 - probability) / 3) for step in (1, 2)]
        gallery.add(FilePrediction(photos[number % 3], ((names[place], probability), *others)))
    return gallery


def test_the_least_certain_are_kept_in_order_and_all_are_counted():
    group = LeastCertain(3)
    for number, probability in enumerate([0.9, 0.7, 0.8, 0.7, 0.95, 0.6]):
        group.add(FilePrediction(Path(str(number)), (("cat", probability),)))
    assert [prediction.path.name for prediction in group] == ["5", "1", "3"]
    assert group.total == 6


def test_unsure_images_come_first_and_what_is_left_out_is_counted(photos, tmp_path):
    gallery = filled(photos, ["cat", "lynx", "otter"], per_class=100)
    gallery.add(FilePrediction(Path("x.jpg"), error="it is truncated"))
    text = Page(page := gallery.page(tmp_path, "runs/cats")).text
    assert page.count("<img ") == 60 + 3 * 24
    assert page.index('id="unsure"') < page.index('id="class-1"')
    assert "300\u00a0images: 3\u00a0classes, 63 unsure".replace("\u00a0", " ") in text.replace("\u00a0", " ")
    assert "below 60 %; 60 shown, the least certain" in text
    assert "79\u00a0images; 24 shown, the least certain".replace("\u00a0", " ") in text.replace("\u00a0", " ")
    assert "it is truncated" in text


def test_every_image_names_its_probability_and_the_next_class(photos, tmp_path):
    gallery = Gallery(["cat", "lynx", "otter"])
    gallery.add(FilePrediction(photos[0], (("lynx", 0.75), ("cat", 0.2), ("otter", 0.05))))
    page = gallery.page(tmp_path, "run")
    assert "high.png: lynx 75.0\u00a0%, cat 20.0\u00a0%, otter 5.0\u00a0%" in page
    assert "75.0\u00a0% <small>then cat 20.0\u00a0%</small>" in page
    assert "Never predicted: cat, otter." in page
    assert "no threshold was set" in page


def test_links_lead_to_the_files_and_names_are_text(photos, tmp_path):
    gallery = filled(photos, ["cat"], threshold=0.0)
    page = Page(gallery.page(tmp_path, "run"))
    links = {value for name, value in page.attributes if name == "href" and not value.startswith("#")}
    found = {os.path.realpath(os.path.join(os.fsencode(tmp_path), unquote_to_bytes(link))) for link in links}  # noqa: PTH118
    assert found == {os.fsencode(path.resolve()) for path in photos}
    page.text.encode()  # no byte of a name that is not UTF-8


def test_one_file_without_network(photos, tmp_path):
    page = Page(filled(photos, ["cat"]).page(tmp_path, "run"))
    sources = [value for name, value in page.attributes if name == "src"]
    assert all(value.startswith("data:image/") for value in sources)
    assert page.policy.startswith("default-src 'none'")


def test_images_are_bounded_whatever_the_number_of_classes(monkeypatch, photos, tmp_path):
    monkeypatch.setattr(gallery_page, "thumbnail", lambda _: "not read")
    for classes, per_class in ((3, 24), (121, 19), (3000, 1)):
        gallery = Gallery([f"class {number}" for number in range(classes)])
        assert {group.limit for group in gallery.by_class.values()} == {per_class}
    page = filled(photos, [f"species {number}" for number in range(1000)], per_class=4, threshold=0).page(
        tmp_path, "run"
    )
    assert page.count("cannot be read any more") == 2000


def test_an_earlier_page_is_replaced_and_no_other_file(photos, tmp_path):
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(UsageError, match="choose another file with --gallery"):
        gallery_path(tmp_path / "mine.html")
    page = filled(photos, ["cat"]).write(gallery_path(tmp_path), Path("run"))
    assert page == tmp_path / "gallery.html"
    assert gallery_path(page) == page


def test_in_a_browser_it_fits_searches_and_names_the_image_in_focus(browser, photos, tmp_path):
    names = [EVIL, "Archaeopteryx lithographica (Solnhofen, 1861)", "w" * 80, *(f"species {n}" for n in range(118))]
    page = filled(photos, names, per_class=4).write(tmp_path / "page.html", Path(EVIL))
    visible = "[...document.querySelectorAll('.found')].filter((one) => one.offsetHeight).map((one) => one.innerText)"
    for width, height, phone in SIZES.values():
        browser.open(page, width, height, phone=phone)
        browser.value(OPEN_ALL)
        assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert browser.value(STICKING_OUT) == []
        assert browser.value("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        assert len(browser.value(visible)) == 1 + len(names)
        last = "[...document.querySelectorAll('.gallery li')].at(-1)"
        more = f"{last}.querySelector('.more').innerText"
        assert browser.value(f"{last}.querySelector('.more').offsetHeight > 0") is phone
        browser.value(f"{last}.querySelector('a').focus()")
        assert browser.value(f"{last}.querySelector('.more').offsetHeight > 0")
        assert "high.png" in browser.value(more)
        assert browser.value(STICKING_OUT) == []
        browser.value("document.querySelector('.search input').focus()")
        browser.type("SPECIES 33")
        unsure, found = browser.value(visible)
        assert unsure.startswith("Unsure")
        assert found.startswith("species 33")
        assert browser.value("document.querySelector('.search output').value").startswith("4 of ")
        assert browser.value("typeof window.hacked") == "undefined"
        assert browser.complaints == []
