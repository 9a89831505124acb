"""Tables in a real browser: sorted by click and by keyboard; what is not measured is folded away."""

import pytest

from helpers.browser_pipe import OPEN_ALL, SIZES, STICKING_OUT
from helpers.small_table import measured, table
from helpers.synthetic_runs import make_result, write_run
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.filled_table import fill_table
from tailcloud.reporting import write_report

ROWS = [
    {"label": "Beta", "method": "ce", "paper": [70.0, 60.0]},
    {"label": "Unknown", "method": "focal", "paper": [99.0, "-"]},
    {"label": "alpha", "method": "gcl"},
    {"label": "Gamma", "method": "ldam"},
]
RESULTS = {
    ("ce", "digits-lt"): [measured(0, 72.0)],
    ("gcl", "digits-lt"): [measured(0, 9.5, model={"parameters": 1_200, "flops": 950_000_000})],
    ("ldam", "digits-lt"): [measured(0, 80.0, model={"parameters": 20_000, "flops": 1_200})],
}
FIRST_CELLS = "[...document.querySelector('.sortable').tBodies[0].rows].map((row) => row.cells[0].innerText)"
NAMES = f"{FIRST_CELLS}.map((words) => words.split(' ')[0])"
STATES = "[...document.querySelectorAll('.sortable th[aria-sort]')].map((th) => [th.innerText, th.ariaSort])"


def head(words):
    return f"[...document.querySelectorAll('.sortable thead button')].find((one) => one.innerText == '{words}')"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    place = tmp_path_factory.mktemp("page") / "bench.html"
    place.write_text(bench_page([fill_table(table(rows=ROWS), RESULTS)]), encoding="utf-8")
    return place


@pytest.fixture(params=SIZES)
def show(request, browser, page):
    width, height, phone = SIZES[request.param]
    browser.open(page, width, height, phone=phone)
    return browser


def press(browser, key):
    code = {"Enter": (13, "\r"), " ": (32, " ")}[key]
    for kind in ("keyDown", "keyUp"):
        text = {"text": code[1]} if kind == "keyDown" else {}
        browser.command("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code[0], **text)


def test_rows_are_sorted_by_click_and_a_second_click_turns_them(show):
    assert show.value(NAMES) == ["Beta", "alpha", "Gamma"]
    assert show.value(STATES) == []
    show.value(f"{head('top-1, last epoch')}.click()")
    assert show.value(NAMES) == ["Gamma", "Beta", "alpha"]  # 80, 72, 9.5: not as text
    assert show.value(STATES) == [["top-1, last epoch", "descending"]]
    show.value(f"{head('top-1, last epoch')}.click()")
    assert show.value(NAMES) == ["alpha", "Beta", "Gamma"]
    assert show.value(STATES) == [["top-1, last epoch", "ascending"]]
    assert show.complaints == []


def test_rows_are_sorted_by_keyboard(show):
    show.value(f"{head('method')}.focus()")
    press(show, "Enter")
    assert show.value(NAMES) == ["alpha", "Beta", "Gamma"]
    press(show, " ")
    assert show.value(NAMES) == ["Gamma", "Beta", "alpha"]
    assert show.value(STATES) == [["method", "descending"]]


def test_units_count_and_missing_values_stay_last(show):
    show.value(f"{head('FLOPs')}.click()")
    assert show.value(NAMES) == ["alpha", "Beta", "Gamma"]  # 950 M, 69.8 M, 1.2 k
    for first in ("descending", "ascending"):
        show.value(f"{head('published')}.click()")
        assert show.value(NAMES)[0] == "Beta", first  # the others have no published number


def test_what_is_not_measured_is_folded_away(show):
    folded = "[...document.querySelectorAll('details')].map((one) => [one.open, one.innerText.includes('Unknown')])"
    assert show.value("document.querySelector('main').innerText.includes('Unknown')") is False
    assert [is_open for is_open, _ in show.value(folded)] == [False, False]
    show.value(OPEN_ALL)
    assert show.value("document.querySelector('main').innerText.includes('99.00')")
    assert show.value(STICKING_OUT) == []
    assert show.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_tables_of_reports_and_comparisons_are_sorted_too(browser, tmp_path):
    runs = [write_run(tmp_path / method, make_result(30, method=method)) for method in ("gcl", "ce")]
    for place, words in ((write_report(runs[:1]), "accuracy"), (write_report(runs, tmp_path / "both.html"), "method")):
        browser.open(place, *SIZES["laptop"][:2])
        browser.value(OPEN_ALL)
        before = browser.value(FIRST_CELLS)
        browser.value(f"{head(words)}.click()")
        assert browser.value(FIRST_CELLS) != before
        assert sorted(browser.value(FIRST_CELLS)) == sorted(before)
        assert browser.complaints == []


def test_without_scripts_the_table_is_there_and_offers_no_sorting(browser, page):
    browser.open(page, *SIZES["laptop"][:2], scripts=False)
    assert len(browser.value(NAMES)) == 3
    assert browser.value("document.querySelectorAll('.sortable button').length") == 0
