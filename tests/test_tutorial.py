"""docs/tutorial.md, followed from an empty folder: its files are saved and its commands run as they stand, in order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line import printed
from tailcloud.auto_recipe import pretrained_draft
from tailcloud.launch.run_data import clear_data_cache

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tutorial.md").read_text().split("## 1. ")[1]  # after what installs
STEPS = re.findall(r"(?:`(\w+\.py)`:\n\n)?```(?:python|console)\n(.*?)```", PAGE, re.DOTALL)
SHOWN = re.findall(r"<!-- output: (.+?)(?:; lines: \d+)? -->\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def do(command):
    """Run a line; what it printed."""
    words = shlex.split(command)
    if words[0] == "tailcloud":
        clear_data_cache()  # a command is a process of its own, which opens its data anew
        return printed(words[1:])
    words[0] = sys.executable if words[0] == "python" else words[0]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def words_of(text):
    """The lines of an output without numbers, which differ from machine to machine."""
    return {re.sub(r"[\d.,e-]+", "#", line).rstrip() for line in text.splitlines() if line != "…"}


def test_what_is_shown_is_of_commands_that_are_typed():
    typed = {line.removeprefix("$ ") for file, text in STEPS if not file for line in text.splitlines()}
    assert len(SHOWN) >= 5
    for command, text in SHOWN:
        assert command in typed
        assert text.strip(), f"run python benchmarks/tutorial_output.py: {command} shows nothing"


@pytest.mark.slow
def test_the_tutorial_works_from_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # as benchmarks/tutorial_output.py has it
    monkeypatch.setattr(pretrained_draft, "HEAD_STEPS", 300)  # a quarter: what heads learn is tested elsewhere
    said = {}
    for file, text in STEPS:
        if file:
            Path(file).write_text(text)
        else:
            said |= {line: do(line) for line in (line.removeprefix("$ ") for line in text.splitlines())}
    assert len(said) >= 13
    assert "200 to 10 images each" in said["tailcloud inspect photos"]
    assert words_of(dict(SHOWN)["tailcloud inspect photos"]) <= words_of(said["tailcloud inspect photos"])
    export = "tailcloud export runs/signs --to onnx"
    assert words_of(dict(SHOWN)[export]) == words_of(said[export])
    assert len(Path("answers.csv").read_text().splitlines()) == 1 + len(list(Path("new").iterdir())) == 17
    assert Path("comparison.html").stat().st_size > 10_000
    classified = said["python classify.py new/bolt0.png new/star0.png"].splitlines()
    assert [line.split()[0] for line in classified] == ["new/bolt0.png", "new/star0.png"]
    assert all(0 < float(line.split()[1]) <= 1 for line in classified)
    train = "tailcloud train --data photos --time-budget 30s --out runs/"
    first, again = said[f"{train}signs"], said[f"{train}more"]
    sizes = [re.findall(r"read at (\d+) ×", text) for text in (first, again)]
    frozen = all("stays as it is" in text for text in (first, again))
    if frozen and sizes[0] == sizes[1]:  # not on a fast machine, nor on one that is suddenly busy or free
        assert re.search(r"[1-9]\d* from the cache", again)


def test_the_script_is_that_of_the_page_on_exports():
    script = dict(STEPS)["classify.py"]
    assert script in (DOCS / "export.md").read_text()
