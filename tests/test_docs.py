"""The documentation is true: its Python runs, its commands parse, its files exist."""

import re
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from pkgutil import resolve_name

import pytest
from PIL import Image

from helpers.command_line import printed
from helpers.drawing import draw

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_ELSEWHERE = {
    "errors.md": "cli/test_bad_inputs.py",
    "extending.md": "plugins/test_plugins.py",
    "tutorial.md": "test_tutorial.py",
}
MAKE = re.compile(r"^\$ make (\w+)", re.MULTILINE)
COMMANDS = sorted(
    {
        re.sub(r"\s+#.*", "", line.strip().removeprefix("$ "))
        for page in PAGES
        if page.name not in RUN_ELSEWHERE
        for block in re.findall(r"```(?:bash|console)\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        if line.strip().removeprefix("$ ").startswith("tailcloud ")
    }
)


@pytest.mark.slow
def test_the_python_page_runs(tmp_path, monkeypatch, capsys):
    """Its blocks in order; that of the estimator is examples/estimator.py and has a test of its own."""
    monkeypatch.chdir(tmp_path)
    scope, blocks = {}, re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    for block in (block for block in blocks if "LongTailClassifier" not in block):
        exec(block, scope)
        if "predict_proba" in block:  # a trained model
            assert len(scope["names"]) == 500
            assert scope["probabilities"].argmax(dim=1).equal(scope["logits"].argmax(dim=1))
    assert "probabilities" in scope
    assert str(Path("runs/digits/report.html")) in capsys.readouterr().out
    test = scope["torch"].from_numpy(scope["data"].test.images).flatten(1).float() / 255
    right = scope["model"](test).argmax(dim=1).numpy() == scope["data"].test.labels
    assert right.mean() > 0.75


@pytest.mark.usefixtures("one_onnx_registry")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_the_docs_is_valid(command, finished_run, tmp_path, monkeypatch):
    """Commands run as they stand; training ones with --dry-run, and those that need files get --help."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)[1:]
    if words[0] in {"inspect", "train", "data"} and "photos" in words:
        for name, number in product(("cat", "lynx"), range(12)):
            draw(tmp_path / "photos" / name / f"camera{number // 2}_{number}.png")
    if words[0] in {"evaluate", "report", "watch", "predict", "export"}:
        shutil.copytree(finished_run, tmp_path / "runs" / "digits-lt-gcl-seed0")
    if "--like" in words:
        shutil.copytree(finished_run, tmp_path / words[words.index("--like") + 1])
    if words[0] == "predict":
        (tmp_path / "photos").mkdir()
        Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "one.png")
    if words[0] == "train" and "--resume" not in words and "cifar" not in command:
        words.append("--dry-run")
    elif (
        words[0] in {"rebalance", "average", "review", "doctor"}
        or words[:2] == ["weights", "get"]  # a download
        or "cifar" in command
        or "--resume" in words
        or ("*" in command and words[0] != "predict")
    ):
        words.append("--help")
    printed(words)


@pytest.mark.parametrize("target", sorted({target for page in PAGES for target in MAKE.findall(page.read_text())}))
def test_every_make_target_in_the_docs_exists(target):
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_troubleshooting_quotes_what_tailcloud_says():
    """Every quoted sentence is in docs/errors.md, which the tests compare with the commands."""
    said = (ROOT / "docs" / "errors.md").read_text()
    quotes = re.findall(r"^> (.+)$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(quotes) >= 8
    assert [quote for quote in quotes if quote not in said] == []


def test_the_rooms_of_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", text.split("## The ideas")[0]):
        assert (ROOT / "src" / "tailcloud" / name).exists() or (ROOT / name).exists(), name


@pytest.mark.parametrize("page", ["architecture.md", "extending.md"])
def test_every_file_that_a_change_goes_to_exists(page):
    names = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "docs" / page).read_text())
    assert names
    for name in names:
        assert (ROOT / "src" / "tailcloud" / name).exists() or (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_an_old_word(page):
    """Words that recipes and pages do not use any more."""
    old = (
        r"data\.plane|\bplanes?\b|stage\d\.head\b|\bleans?\b|\bchief\b|watch\.|augment\.(area|ratio|jitter)|near-twins"
    )
    assert re.findall(old, page.read_text().replace("tailcloud watch.", "")) == []


def test_every_name_to_import_is_there():
    named = {name for page in PAGES for name in re.findall(r"\btailcloud(?:\.\w+)+\b(?!…)", page.read_text())}
    assert "tailcloud.data.open_dataset" in named
    for name in sorted(named):
        assert resolve_name(name) is not None, name


@pytest.mark.slow
def test_every_figure_comes_from_a_record():
    """The tables of docs/*.md and README.md and the recipes' headers are what benchmarks/render.py would write."""
    command = [sys.executable, str(ROOT / "benchmarks" / "render.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
