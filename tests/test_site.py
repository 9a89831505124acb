"""The site that ``make docs`` builds: whole, self-contained, and readable on a laptop and on a phone."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tailcloud

ROOT = Path(__file__).parents[1]
ROOMS = ("losses", "heads", "backbones")
MODULES = {*ROOMS, "data", "sampling"}
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["']?(?:https?:)?//|<link[^>]+href=["']?(?:https?:)?//"""
)
SIZES = {"laptop": (1366, 768, False), "phone": (390, 844, True)}
STICKING_OUT = """[...document.querySelectorAll('.md-content *')].filter((part) =>
  !part.closest('.md-typeset__scrollwrap, pre, svg')
  && part.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map((part) => part.outerHTML.slice(0, 120))"""
SEARCH = "document.querySelector('.md-search__input')"
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as make docs does, where a link or an anchor that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    surroundings = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def public_names():
    """What ``import tailcloud`` offers, and the parts that a training loop can take."""
    yield from (name for name in tailcloud.__all__ if not name.startswith("__") and name not in MODULES)
    for room in ROOMS:
        yield from (name for name in getattr(tailcloud, room).__all__ if not name.isupper())


def test_every_public_name_is_in_the_reference(site):
    reference = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    headings = set(re.findall(r'<span class="doc doc-object-name[^"]*">(\w+)</span>', reference))
    assert sorted(set(public_names()) - headings) == []


def test_pages_fetch_nothing(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if FETCHED.search(page.read_text())] == []


@pytest.mark.parametrize("size", SIZES)
def test_nothing_sticks_out(site, browser, size):
    width, height, phone = SIZES[size]
    for page in sorted(site.rglob("*.html")):
        if page.name not in {"404.html", "tables.html"}:  # the second is a report, which has tests of its own
            browser.open(page, width, height, phone=phone)
            assert browser.value(STICKING_OUT) == [], page.name
            assert browser.value("document.documentElement.scrollWidth") <= width, page.name
            assert browser.complaints == [], page.name


def test_the_search_works_from_the_disk(site, browser):
    browser.open(site / "index.html", 1366, 768)
    browser.value(f"{SEARCH}.focus()")
    browser.type("near-duplicates")
    until = time.monotonic() + 30
    while not (found := browser.value(FOUND)) and time.monotonic() < until:
        browser.value(f"{SEARCH}.dispatchEvent(new KeyboardEvent('keyup'))")
        time.sleep(0.2)
    assert any("data.html" in link for link in found)
    assert browser.complaints == []
