"""The other verbs, and the promises of the command line as a whole."""

import gc
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tailcloud
from helpers.command_line import printed
from tailcloud.cli import app
from tailcloud.cli.inspect import bars
from tailcloud.errors import TailcloudError
from tailcloud.garbage_collection import imports_kept


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: printed(words)


HELP_AND_WHAT_IT_LOADS = """
import runpy, sys
sys.argv = ["tailcloud", "--help"]
try:
    runpy.run_module("tailcloud", run_name="__main__")
except SystemExit:
    pass
heavy = {"torch", "numpy", "sklearn", "pydantic", "jinja2", "safetensors"} & set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""

TRAINING_AND_WHAT_IT_LOADS = """
import sys
sys.argv = ["tailcloud", "train", "digits-lt/ce", "--set", "stage1.epochs=1", "--set", "logging.examples=false"]
from tailcloud.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
slow = {"sklearn", "scipy", "matplotlib", "pandas", "torch._dynamo", "torch._inductor"} & set(sys.modules)
sys.exit(str(slow) if slow else 0)
"""


def test_help_loads_nothing_heavy():
    """A quick start is a matter of what is imported."""
    command = [sys.executable, "-c", HELP_AND_WHAT_IT_LOADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tailcloud train" in done.stdout
    assert done.stdout.index("tailcloud inspect PHOTOS") < done.stdout.index("cifar10")


def test_training_loads_nothing_slow_but_torch(tmp_path):
    command = [sys.executable, "-c", TRAINING_AND_WHAT_IT_LOADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "digits-lt-ce-seed0" / "report.html").is_file()


def test_imports_are_never_searched_for_garbage():
    before = gc.get_freeze_count()
    try:
        with imports_kept():
            assert not gc.isenabled()
            made = [[] for _ in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() - before >= len(made)
    finally:
        gc.unfreeze()


def test_version(call):
    assert call("--version") == f"tailcloud {tailcloud.__version__}\n"


@pytest.mark.parametrize(
    "verb",
    [
        *("train", "evaluate", "predict", "inspect", "report", "review", "recipes", "data", "bench", "rebalance"),
        *("average", "export", "doctor"),
    ],
)
def test_every_verb_explains_itself_with_an_example(call, verb):
    said = call(verb, "--help")
    assert "tailcloud " + verb in said


def test_inspect_shows_counts_groups_and_a_plot(call):
    said = call("inspect", "digits-lt")
    assert "331 training and 500 test images, 8×8×1, 10 classes, 120 to 2 images each" in said
    assert "few (< 20): 5" in said
    assert "█ 120" in said


def test_inspect_says_when_there_is_no_tail(call):
    assert "there is no tail" in call("inspect", "digits-lt:1")


def test_bars_of_many_classes_fit_a_screen():
    lines = bars(list(range(1000, 0, -1)), [f"c{i}" for i in range(1000)])
    assert len(lines) <= 41
    assert lines[-1] == "(one in 25 classes shown)"


def test_evaluate_prints_a_table_or_json(call, finished_run):
    assert "500 test images of digits-lt" in call("evaluate", str(finished_run))
    assert '"per_class"' in call("evaluate", str(finished_run), "--json")


def test_evaluate_has_a_sentence_for_a_result_of_somebody_else(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text('{"format": 1, "protocol": 7}')
    with pytest.raises(TailcloudError, match=r"result\.json is damaged or was not written by tailcloud"):
        CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")], catch_exceptions=False)


def test_recipes_are_listed_shown_and_copied(call, tmp_path):
    listed = call("recipes", "ls")
    assert "cifar100-lt" in listed
    assert "Label-distribution-aware margins with deferred re-weighting" in " ".join(listed.split())
    assert "GCL with the noise of its eq. 5 on the feature" in " ".join(listed.split())
    assert "Probabilistic contrastive learning (ProCo; Du et al., 2024) tau-norm" in " ".join(listed.split())
    assert "The strongest recipe for one ResNet-32 without teachers" in " ".join(listed.split())
    (mislas,) = (line.split() for line in listed.splitlines() if line.startswith("mislas-50"))
    assert mislas[:3] == ["mislas-50", "cifar10-lt,", "cifar100-lt"]
    assert 'method = "gcl"' in call("recipes", "show", "digits-lt/gcl")
    assert "granularity" in call("recipes", "show", "digits-lt/gcl", "--resolved")
    call("recipes", "copy", "digits-lt/gcl")
    assert (tmp_path / "digits-lt-gcl.toml").read_text() == call("recipes", "show", "digits-lt/gcl")
    assert "gcl on digits-lt" in call("train", "digits-lt-gcl.toml", "--dry-run")


def test_a_recipe_with_a_ratio_is_shown_copied_and_trained_under_its_name(call, tmp_path):
    call("recipes", "copy", "digits-lt:20/gcl")
    assert (tmp_path / "digits-lt-20-gcl.toml").read_text() == call("recipes", "show", "digits-lt:20/gcl")
    plan = call("train", "digits-lt/gcl", "--data", "digits-lt:20", "--dry-run")
    assert call("train", "digits-lt:20/gcl", "--dry-run") == plan
    assert "runs/digits-lt-20-gcl-seed0" in plan


def test_a_trunk_that_stays_random_is_told(call):
    settings = ["--set", "model.backbone=resnet18-fresh", "--dry-run"]
    told = "the other parts of resnet18-fresh keep their random initial weights"
    assert told in " ".join(call("train", *settings, "--set", "stage1.train=backbone.fresh+head").split())
    assert told not in " ".join(call("train", *settings).split())


def test_report_names_its_page(call, finished_run, tmp_path):
    assert "page.html" in call("report", str(finished_run), "--out", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size < 5_000_000


def test_report_draws_embeddings(call, finished_run):
    assert "report: e.html" in call("report", "--embedding", str(finished_run), "--out", "e.html")
