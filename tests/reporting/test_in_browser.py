"""Pages in a real browser, on a laptop and on a phone: nothing sticks out, the search works, nothing else runs."""

import pytest

from helpers.browser_pipe import EVIL, OPEN_ALL, SIZES, STICKING_OUT
from helpers.synthetic_runs import make_result, write_all_examples, write_examples, write_run
from tailcloud.reporting import write_report
from tailcloud.reporting.worst_classes import worst_classes
from tailcloud.runs.result import parse_result

ROWS = "[...document.querySelectorAll('.search')].map((box) => [...box.parentElement.querySelectorAll('tbody tr')])"
SHOWN = f"{ROWS}[0].filter((row) => row.offsetHeight > 0).map((row) => row.innerText)"


def run_with_images(folder, result):
    run = write_run(folder, result)
    worst = [one.index for one in worst_classes(parse_result(result), {})]
    write_examples(run, [(index, 0) for index in worst for _ in range(6)], (64, 48, 3))
    return run


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of every kind: few classes, a thousand, a comparison, long and hostile names."""
    home = tmp_path_factory.mktemp("pages")
    names = [EVIL, "Archaeopteryx lithographica (Solnhofen, 1861)", "w" * 80, *(f"species {n}" for n in range(7))]
    results = {
        "ten": make_result(10, picked_on="val"),
        "thousand": make_result(1000),
        "names": make_result(10, class_names=names, spec=EVIL),
        "forty": make_result(40, class_names=[f"{name} {place}" for place in range(4) for name in names]),
    }
    folders = {name: run_with_images(home / name, result) for name, result in results.items()}
    write_all_examples(folders["forty"], 40, side=224)
    made = {name: write_report([folder]) for name, folder in folders.items()}
    runs = [
        write_run(home / f"{method}{seed}", make_result(100, method=method, seed=seed))
        for method in ("ce", "gcl", "a-method-with-a-rather-long-name")
        for seed in (0, 1)
    ]
    return made | {"comparison": write_report(runs, home / "comparison.html")}


@pytest.fixture(params=SIZES)
def show(request, browser, pages):
    width, height, phone = SIZES[request.param]

    def show(name, **options):
        browser.open(pages[name], width, height, phone=phone, **options)
        browser.value(OPEN_ALL)
        return browser

    return show


@pytest.mark.parametrize("name", ["ten", "thousand", "names", "forty", "comparison"])
def test_nothing_sticks_out_and_nothing_is_complained_about(show, name):
    browser = show(name)
    assert browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.value(STICKING_OUT) == []
    assert browser.value("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert browser.value("document.images.length > 0") == (name != "comparison")
    assert browser.complaints == []


@pytest.mark.parametrize("name", ["thousand", "comparison"])
def test_the_search_finds_a_class(show, name):
    browser = show(name)
    everything = browser.value(SHOWN)
    assert len(everything) == (1000 if name == "thousand" else 100)
    browser.value("document.querySelector('.search input').focus()")
    browser.type("CLASS 77 ")
    found = browser.value(SHOWN)
    assert found == [row for row in everything if "77" in row.split("\t")[0]]
    assert browser.value("document.querySelector('.search output').value").startswith(f"{len(found)} of ")
    browser.value("document.querySelector('.search input').select()")
    browser.type("few 9")
    assert browser.value(SHOWN) == [
        row for row in everything if row.split("\t")[1] == "few" and "9" in row.split("\t")[0]
    ]
    browser.value("document.querySelector('.search input').select()")
    browser.type(" ")
    assert browser.value(SHOWN) == everything
    assert browser.complaints == []


TIP = "[document.querySelector('.tip').hidden, document.querySelector('.tip').textContent]"
NAMED = "[...document.querySelectorAll('figure svg')].map((svg) => svg.querySelectorAll('title').length)"


def middle_of(browser, selector, place):
    """The middle of a mark, in the window."""
    box = "mark.getBoundingClientRect()"
    point = f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]"
    mark = f"document.querySelectorAll({selector!r})[{place}]"
    return browser.value(f"((mark) => {{ mark.scrollIntoView({{block: 'center'}}); return {point} }})({mark})")


@pytest.mark.parametrize(
    ("name", "selector", "place", "words"),
    [
        ("ten", "g.right[class*=shade] path", 0, ""),
        ("ten", "g.column path", 20, "stage1, epoch 21\nloss"),
        ("thousand", "g.cloud path", 4, "class 4: "),
        ("comparison", "g.fill.series-1 path", 0, "many, "),
        ("names", "g.fill path", 0, EVIL),
    ],
)
def test_the_pointer_names_a_mark(show, name, selector, place, words):
    browser = show(name)
    x, y = middle_of(browser, selector, place)
    browser.wait_for_frames()  # scrolling hides a name
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    hidden, text = browser.value(TIP)
    assert not hidden
    assert text.startswith(words)
    assert text
    assert browser.value("document.querySelectorAll('.named').length") == 1
    left, right = browser.value(
        "((box) => [box.left, box.right])(document.querySelector('.tip').getBoundingClientRect())"
    )
    assert 0 <= left < right <= browser.value("document.documentElement.clientWidth")
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert browser.value(TIP)[0]
    assert browser.complaints == []


def test_keys_step_through_the_marks_of_a_chart(show):
    browser = show("ten")
    chart = "[...document.querySelectorAll('figure svg')].find((svg) => svg.querySelector('g.right'))"
    cells = browser.value(f"[...{chart}.querySelectorAll('title')].map((title) => title.textContent)")
    browser.value(f"{chart}.scrollIntoView()")
    browser.press("Tab")
    browser.value(f"{chart}.focus()")
    assert browser.value(TIP) == [False, cells[0]]
    for key, place in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
        browser.press(key)
        assert browser.value(TIP) == [False, cells[place]]
    browser.press("Escape")
    assert browser.value(TIP)[0]
    assert browser.complaints == []


def test_without_scripts_marks_keep_their_titles(show):
    browser = show("ten", scripts=False)
    assert min(browser.value(NAMED)[:4]) > 0
    assert not browser.value("document.querySelector('.tip')")


def test_without_scripts_everything_is_there_but_the_search(show):
    browser = show("thousand", scripts=False)
    assert len(browser.value(SHOWN)) == 1000
    assert browser.value("document.querySelector('.search').offsetHeight") == 0


def test_a_stranger_can_run_nothing(show):
    browser = show("names")
    assert browser.value("typeof window.hacked") == "undefined"
    assert browser.value("document.scripts.length") == 1
    smuggled = "Object.assign(document.createElement('script'), {textContent: 'window.hacked = 1'})"
    browser.value(f"document.body.append({smuggled})")  # a script that got in somehow: the page's policy refuses it
    assert browser.value("typeof window.hacked") == "undefined"
    assert len(browser.complaints) == 1
