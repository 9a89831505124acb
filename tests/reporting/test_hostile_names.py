"""Names from strangers in pages of several runs, opened in a real browser: nothing runs, and nothing is loaded."""

import pytest

from helpers.browser_pipe import EVIL, SIZES
from helpers.small_table import measured, table
from helpers.synthetic_runs import make_result, write_run
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.filled_table import fill_table
from tailcloud.reporting import write_report

SMUGGLED = """
document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked = 1'}));
document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.hacked = 1">');
document.body.append(Object.assign(document.createElement('img'), {src: 'https://stranger.example/pixel.png'}));
document.body.append(Object.assign(document.createElement('iframe'), {src: 'https://stranger.example/'}));
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages")
    runs = [
        write_run(home / f"run{seed}", make_result(10, class_names=[EVIL] * 10, spec=EVIL, method=EVIL, seed=seed))
        for seed in (0, 1)
    ]
    rows = [{"label": EVIL, "method": "ce", "source": EVIL}]
    filled = fill_table(table(rows=rows, title=EVIL, about=EVIL), {("ce", "digits-lt"): [measured(0, 90.0)]})
    (home / "bench.html").write_text(bench_page([filled]), encoding="utf-8")
    return {"comparison": write_report(runs, home / "comparison.html"), "bench": home / "bench.html"}


@pytest.mark.parametrize("name", ["comparison", "bench"])
def test_names_run_nothing_and_the_policy_refuses_what_gets_in_somehow(browser, pages, name):
    browser.open(pages[name], *SIZES["laptop"][:2])
    assert browser.complaints == []
    assert EVIL in browser.value("document.body.innerText")
    assert browser.value("document.scripts.length") == 1
    assert browser.value("typeof window.hacked") == "undefined"
    browser.value(SMUGGLED)
    browser.wait_for_frames()
    assert browser.value("typeof window.hacked") == "undefined"
    refused = [said["entry"]["text"] for said in browser.complaints if "entry" in said]
    for directive in ("script-src", "img-src", "default-src"):
        assert any(directive in text and "Content Security Policy" in text for text in refused), refused
