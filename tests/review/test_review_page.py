"""The page of a review in a real browser: keys and buttons decide, and the list on disk follows."""

import csv
from pathlib import Path

import pytest

from helpers.browser_pipe import SIZES, STICKING_OUT

READY = "!document.getElementById('item').hidden && [...document.images].every((image) => image.complete)"
TEXT = "document.getElementById('{}').textContent"
FOCUSED = "document.activeElement.id"


@pytest.fixture
def page(browser, server):
    browser.open(server.url, *SIZES["laptop"][:2])
    browser.wait_for(READY)
    yield browser
    assert browser.complaints == []


@pytest.fixture
def press(page):
    """Press a key and wait until the page shows this place, such as "2 of 4"."""

    def press(key, place):
        page.press(key)
        page.wait_for(f"{TEXT.format('place')} === '{place}' && {READY}")

    return press


def listed(decisions):
    with decisions.out.open(newline="") as file:
        return {int(Path(row["path"]).name.split(",")[0]): row["label"] for row in csv.DictReader(file)}


def test_keys_decide_and_the_list_follows(page, press, decisions):
    assert page.value(TEXT.format("question")) == "Is this “lynx”, or rather “cat”?"
    assert page.value(TEXT.format("place")) == "1 of 4"
    press("r", "2 of 4")
    assert listed(decisions)[4] == "cat"
    press("d", "3 of 4")
    assert 0 not in listed(decisions)
    press("u", "2 of 4")
    assert listed(decisions)[0] == "cat"
    press("K", "3 of 4")
    assert page.value(TEXT.format("decided")) == "2 decided"
    assert "once “cat” and once “puma & <b>co</b>”" in page.value(TEXT.format("question"))
    press("Enter", "4 of 4")
    assert listed(decisions)[1] == "puma & <b>co</b>"
    press("ArrowLeft", "3 of 4")
    assert "Relabelled as “puma & <b>co</b>”" in page.value(TEXT.format("verdict"))
    press("ArrowRight", "4 of 4")
    assert "in two splits" in page.value(TEXT.format("question"))
    page.press("d")
    page.wait_for(f"{TEXT.format('question')} === 'All images are reviewed'")
    assert 2 not in listed(decisions)
    assert page.value(TEXT.format("command")) == "tailcloud train --data review.csv"


def test_another_class_is_found_by_typing(page, press, decisions):
    page.press("l")
    assert page.value("document.getElementById('chooser').open")
    assert page.value(FOCUSED) == "search"
    page.type("PUM")
    assert page.value("[...document.querySelectorAll('#matches li')].map((line) => line.firstChild.textContent)") == [
        "puma & <b>co</b>"
    ]
    press("Enter", "2 of 4")
    assert listed(decisions)[4] == "puma & <b>co</b>"
    page.press("l")
    page.press("ArrowDown")
    press("Enter", "3 of 4")
    assert listed(decisions)[0] == "lynx"


def test_the_other_image_of_a_pair_can_be_meant(page, press, decisions):
    press("ArrowRight", "2 of 4")
    press("ArrowRight", "3 of 4")
    page.press("s")
    page.wait_for(f"{TEXT.format('relabel-text')} === 'Relabel as cat'")
    press("r", "4 of 4")
    assert (listed(decisions)[6], listed(decisions)[1]) == ("cat", "cat")


def test_buttons_do_the_same(page, decisions):
    page.value("document.getElementById('drop').click()")
    page.wait_for(f"{TEXT.format('place')} === '2 of 4'")
    assert 4 not in listed(decisions)
    page.value("document.getElementById('keep').focus()")
    page.press("Enter")  # presses the button, and does not relabel
    page.wait_for(f"{TEXT.format('place')} === '3 of 4'")
    assert listed(decisions)[0] == "cat"


def test_a_reopened_page_goes_on(page, press, server):
    press("k", "2 of 4")
    page.open(server.url, *SIZES["laptop"][:2])
    page.wait_for(READY)
    assert page.value(TEXT.format("place")) == "2 of 4"


def test_what_is_not_saved_is_said(page, decisions, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device", "review.json")

    monkeypatch.setattr(decisions, "_save", full)
    page.press("d")
    page.wait_for("!document.getElementById('error').hidden")
    assert page.value(TEXT.format("error")) == "Not saved: review.json could not be written: No space left on device"
    assert page.value(TEXT.format("place")) == "1 of 4"
    page.complaints.clear()  # the browser reports status 500


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(browser, server, size, scheme):
    width, height, phone = SIZES[size]
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.command("Emulation.setEmulatedMedia", features=features)
    browser.open(server.url, width, height, phone=phone)
    browser.wait_for(READY)
    assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.value(STICKING_OUT) == []
    assert browser.value("[...document.images].every((image) => image.naturalWidth > 0 && image.alt)")
    assert browser.value("[...document.querySelectorAll('button')].every((one) => one.innerText || one.ariaLabel)")
    assert browser.value("getComputedStyle(document.querySelector('button')).transitionDuration") == "0s"
    browser.value("document.getElementById('keep').focus()")
    browser.press("Tab")
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert browser.complaints == []
