"""Parts from outside: files and packages register them, everything works with them, and a stumble has a sentence."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tailcloud
from tailcloud import plugins
from tailcloud.backbones import BACKBONES
from tailcloud.cli import app
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.head_transforms import HEAD_TRANSFORMS
from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES
from tailcloud.objectives import OBJECTIVES
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.plugins import discovery
from tailcloud.recipe import load_recipe
from tailcloud.recipe.library import PLUGIN_METHODS
from tailcloud.runs.folder import RunFolder
from tailcloud.sampling import WEIGHTS, sample_weights

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
LOSS, METHOD, PARTS, OBJECTIVE, TRANSFORM, OPTIMIZER, DATA = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line.removeprefix("$ ") for line in PAGE.splitlines() if line.startswith("$ tailcloud ")]
SHORT = ["--set", "stage1.epochs=1", "--set", "model.width=0.25"]
FILES = {
    "my_loss.py": LOSS + METHOD,
    "my_parts.py": PARTS,
    "my_objective.py": OBJECTIVE,
    "my_transform.py": TRANSFORM,
    "my_optimizer.py": OPTIMIZER,
}
KNOWN = [LOSSES, WEIGHTS, HEADS, BACKBONES, OBJECTIVES, HEAD_TRANSFORMS, OPTIMIZERS, PLUGIN_METHODS]
STATE = [*KNOWN, discovery._files, discovery._packages]


def forget():
    """What a new process knows: no plugin."""
    for known in STATE:
        for name in [name for name in known if name not in ORIGINAL[id(known)]]:
            del known[name]


ORIGINAL = {id(known): set(known) for known in STATE}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    forget()


def write(name, text):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def call(*words):
    forget()  # every command is a process of its own
    return CliRunner().invoke(app, words, catch_exceptions=False)


def said(*words):
    """The sentence that a command ends with."""
    forget()
    with pytest.raises(TailcloudError) as caught:
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_example_of_the_docs_is_a_whole_plugin_of_thirty_lines():
    assert len(LOSS.splitlines()) <= 30
    plugins.load_plugin(write("my_loss.py", LOSS))
    loss = LOSSES["log-margin"]([8, 2], tau=0.5)
    z, y = [[1.0, 2.0], [0.5, -1.0]], [0, 1]
    expected = 0.0
    for row, label in zip(z, y, strict=True):
        lowered = list(row)
        lowered[label] -= 0.5 * np.log(8 / [8, 2][label])
        expected += (np.log(np.exp(lowered).sum()) - lowered[label]) / 2
    assert float(loss(torch.tensor(z), torch.tensor(y))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_works_with_its_files(command):
    for name, text in FILES.items():
        write(name, text)
    if "my_data.npz" in command:
        exec(DATA, {})
    words = shlex.split(command)[1:]
    if words[0] == "rebalance":
        call("train", "digits-lt/ce", *SHORT, "--out", words[1])
    if words[0] == "train":
        words += ["--dry-run"] if "--seed" in words else SHORT
    elif words[0] == "bench":
        words.append("--dry-run")
    elif words[0] == "report":
        words.append("--help")
    result = call(*words)
    assert result.exit_code == 0, result.output


def test_a_run_records_its_plugin_and_goes_on_with_it():
    write("a folder/my_loss.py", LOSS + METHOD)
    result = call("--plugin", "a folder/my_loss.py", "train", "digits-lt/log-margin", *SHORT, "--out", "run")
    assert result.exit_code == 0, result.output
    command = RunFolder(Path("run")).command()
    assert "--plugin 'a folder/my_loss.py'" in command
    assert json.loads(Path("run/result.json").read_text())["machine"]["plugins"].startswith("my_loss.py ")
    assert said("train", "--resume", "--out", "run") == said("evaluate", "run")
    assert said("evaluate", "run").startswith("run has parts from a plugin: add --plugin 'a folder/my_loss.py'")
    again = call(*shlex.split(command)[1:], "--out", "again")
    assert again.exit_code == 0, again.output
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in ("run", "again")]
    assert weights[0] == weights[1]
    assert call("evaluate", "run", "--plugin", "a folder/my_loss.py").exit_code == 0
    assert call("report", "run").exit_code == 0


NEW_PARTS = {
    "objective": ("my_objective.py", "digits-lt/ce", ["model.head=projecting", "stage1.objective=two-views"]),
    "head transform": ("my_transform.py", "digits-lt/class-means", []),
    "optimizer": ("my_optimizer.py", "digits-lt/ce", ["stage1.optimizer=lion", "stage1.lr=0.001"]),
}


@pytest.mark.parametrize(("file", "recipe", "settings"), NEW_PARTS.values(), ids=NEW_PARTS)
def test_a_run_with_an_own_part_goes_on_after_an_epoch_and_is_evaluated(file, recipe, settings):
    write(file, FILES[file])
    changes = [word for setting in settings for word in ("--set", setting)]
    words = ["train", recipe, "--plugin", file, *SHORT, "--set", "stage1.epochs=2", *changes, "--device", "cpu"]
    assert call(*words, "--set", "engine.checkpoint_seconds=0", "--out", "whole").exit_code == 0
    assert json.loads(Path("whole/result.json").read_text())["machine"]["plugins"].startswith(f"{file} ")
    assert plugins.uses_plugins(RunFolder(Path("whole")).recipe())
    Path("part").mkdir()
    for name in ("recipe.toml", "log.jsonl", "checkpoint"):
        copy = shutil.copytree if Path("whole", name).is_dir() else shutil.copy
        copy(Path("whole", name), Path("part", name))
    for path in set(Path("part/checkpoint").iterdir()) - {Path("part/checkpoint/stage1-0000001.safetensors")}:
        path.unlink()  # as after the first epoch
    assert len([*Path("part/checkpoint").iterdir()]) == 1
    resumed = call("train", "--resume", "--out", "part", "--plugin", file)
    assert resumed.exit_code == 0, resumed.output
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in ("whole", "part")]
    assert weights[0] == weights[1]
    evaluated = call("evaluate", "part", "--plugin", file)
    assert evaluated.exit_code == 0
    assert "500 test images" in evaluated.output


def test_what_an_objective_trains_beside_the_classifier_is_not_in_the_finished_model():
    write("my_objective.py", OBJECTIVE)
    settings = ["--set", "model.head=projecting", "--set", "stage1.objective=two-views"]
    words = ["train", "digits-lt/ce", "--plugin", "my_objective.py", *SHORT, *settings]
    assert call(*words, "--out", "run").exit_code == 0
    assert json.loads(Path("run/model.json").read_text())["architecture"]["head"] == "linear"
    assert "two-views" in load_recipe("run").stage1.objective.name


def test_a_finished_run_takes_the_second_stage_of_an_own_method():
    write("my_transform.py", TRANSFORM)
    write("my_loss.py", LOSS + METHOD)
    assert call("train", "digits-lt/ce", *SHORT, "--out", "run").exit_code == 0
    words = ["rebalance", "run", "--plugin", "my_transform.py", "--plugin", "my_loss.py", "--with"]
    result = call(*words, "class-means", "--set", "stage2.head_transform.sharpness=0.5")
    assert result.exit_code == 0, result.output
    recipe = RunFolder(Path("run-class-means")).recipe()
    assert recipe.method == "ce+class-means"
    assert recipe.stage2.head_transform.options == {"sharpness": 0.5}
    assert said(*words, "log-margin") == 'the method "log-margin" has no second stage; add a table [stage2] to it'
    assert "Known: class-means, crt, disalign" in said(*words, "class-mean")
    assert "add your own second stage with --plugin FILE" in said("rebalance", "run", "--with", "class-means")


def test_options_of_own_parts_are_checked():
    for file in ("my_objective.py", "my_transform.py", "my_optimizer.py"):
        plugins.load_plugin(write(file, FILES[file]))
    for part, option in {"objective": "two-views", "head_transform": "class-means", "optimizer": "lion"}.items():
        with pytest.raises(UsageError, match=rf'stage1\.{part}: there is no field "taus"'):
            load_recipe("digits-lt/ce", [{"stage1": {part: {"name": option, "taus": 1.0}}}])
    with pytest.raises(UsageError, match=r'two-views" works with the head "projecting", not with "linear"'):
        load_recipe("digits-lt/ce", [{"stage1": {"objective": "two-views"}}])
    with pytest.raises(UsageError, match=r'stage2\.head_transform: "class-means" fills linear heads'):
        load_recipe("digits-lt/gcl", [{"stage2": {"head_transform": "class-means"}}])


def test_a_plugin_that_changed_under_way_is_told():
    write("my_loss.py", LOSS)
    words = ["train", *SHORT, "--plugin", "my_loss.py", "--out", "run"]
    assert call(*words, "digits-lt/ce", "--set", "stage1.loss=log-margin").exit_code == 0
    Path("run/result.json").unlink()
    write("my_loss.py", LOSS + "# changed\n")
    assert "This run was started with plugins my_loss.py" in call("train", "--resume", *words[-4:]).output


def test_a_fleet_of_processes_has_the_plugin_too():
    write("my_loss.py", LOSS + METHOD)
    result = call(
        *("train", "digits-lt/log-margin", "--seed", "0", "--seed", "1", "--device", "cpu", "--out", "runs"),
        *(*SHORT, "--plugin", "my_loss.py"),
    )
    assert result.exit_code == 0, result.output
    assert "log-margin, digits-lt" in result.output


BROKEN = LOSS.replace("logits - lowered", "logits - lowered if len(target) == 2 else 1 / 0")


def test_a_loss_that_fails_in_training_is_told_by_its_line():
    line = BROKEN[: BROKEN.index("1 / 0")].count("\n") + 1
    write("my_loss.py", BROKEN)
    words = ["train", "digits-lt/ce", "--plugin", "my_loss.py", "--set", "stage1.loss=log-margin", *SHORT]
    sentence = f"my_loss.py, line {line}: ZeroDivisionError: division by zero"
    assert said(*words, "--out", "run") == sentence
    assert said(*words, "--seed", "0", "--seed", "1", "--out", "runs", "--device", "cpu").endswith(sentence)


def test_a_loss_may_say_that_it_is_a_mean_over_images_and_is_told_so():
    words = ["train", "digits-lt/ce", "--plugin", "my_loss.py", "--set", "stage1.loss=log-margin", *SHORT]
    write("my_loss.py", LOSS)
    assert said(*words, "--set", "engine.accumulate=2", "--out", "run") == (
        "the LogMarginLoss of stage1 does not declare per_image = True, so a batch is not cut into micro-batches; add "
        "that line to its class if it is a mean over images, or train in one process with engine.accumulate = 1"
    )
    write("my_loss.py", LOSS.replace("    def __init__", "    per_image = True\n\n    def __init__"))
    assert call(*words, "--set", "engine.accumulate=2", "--out", "run").exit_code == 0


BAD_FILES = {
    "missing": (None, "the plugin my.py does not exist; --plugin takes the path of a Python file"),
    "syntax": ("def f(:\n", "my.py, line 1: SyntaxError: "),
    "import": ("import os\n\nimport no_such_package\n", "my.py, line 3: ModuleNotFoundError: No module named"),
    "exit": ("import sys\nsys.exit(3)\n", "my.py, line 2: SystemExit: 3"),
    "silent": ("assert False\n", "my.py, line 1: AssertionError"),
    "binary": ("\0", "my.py"),
    "taken": (LOSS.replace('"log-margin"', '"gcl"'), 'my.py, line 24: there is a loss "gcl" already'),
    "twice": (LOSS + 'tailcloud.register_loss("log-margin", tailcloud.losses.GCLLoss)\n', "log-margin"),
    "name": (LOSS.replace('"log-margin"', '"log/margin"'), '"log/margin" is not a valid name for a loss'),
    "no star": (LOSS.replace("counts, *,", "counts,"), "put * before it"),
    "no counts": (LOSS.replace("counts, *,", "sizes, *,"), "the loss LogMarginLoss must take counts first"),
    "no type": (LOSS.replace("tau: float", "tau"), "tau: float = 1.0"),
    "no epsilon": (LOSS.replace(", *, epsilon=None", ""), "LogMarginLoss.forward must take epsilon"),
    "no loss": (LOSS.replace("(Loss)", "(torch.nn.Module)"), "line 14: TypeError"),
    "no mean": (LOSS.replace("lowered, target)", "lowered, target, reduction='none')"), "must return the mean loss"),
    "wrong shapes": (LOSS.replace("logits.shape[1]", "7"), "my.py, line 20: RuntimeError"),
    "method taken": (LOSS + METHOD.replace('"log-margin"', '"gcl"', 1), 'there is a method "gcl" already'),
    "method file": ("import tailcloud\ntailcloud.register_method('a', 'a.toml')\n", "a.toml cannot be read"),
    "sampler": (PARTS.replace("counts **", "-counts **"), 'the sampler "power" gives weights that are negative'),
    "head": (PARTS.replace("cosine = False", "angle = False"), "needs the class attribute cosine"),
    "objective taken": (OBJECTIVE.replace('"two-views"', '"bcl"'), 'there is an objective "bcl" already'),
    "transform taken": (TRANSFORM.replace('"class-means", Cl', '"lws", Cl'), 'there is a head transform "lws" already'),
    "optimiser taken": (OPTIMIZER.replace('"lion"', '"sgd"'), 'there is an optimiser "sgd" already'),
    "objective": (OBJECTIVE.replace("chunk(2)", "chunk(3)"), "my.py, line 37: ValueError: too many values"),
    "optimiser": (OPTIMIZER.replace("lerp(weight", "lrep(weight"), "my.py, line 21: AttributeError"),
    "backbone": (PARTS.replace("self.features = ", "self.size = ").replace("self.features,", "9,"), "features"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_plugin_gets_a_sentence(text, sentence):
    if text is not None:
        write("my.py", text)
    assert sentence in said("recipes", "ls", "--plugin", "my.py")


def test_a_folder_is_no_plugin(tmp_path):
    assert said("--plugin", str(tmp_path), "recipes", "ls").endswith(
        "is a folder; --plugin takes the path of a Python file"
    )


def test_the_same_file_may_come_twice_and_two_files_may_share_a_name():
    write("my_loss.py", LOSS)
    write("other/my_loss.py", LOSS.replace('"log-margin"', '"other"'))
    for path in ("my_loss.py", "./my_loss.py", "other/my_loss.py", Path("my_loss.py").resolve()):
        plugins.load_plugin(path)
    assert plugins.plugin_arguments() == ["--plugin", "my_loss.py", "--plugin", "other/my_loss.py"]
    assert LOSSES["other"] is not LOSSES["log-margin"]


def test_a_plugin_may_import_its_neighbour():
    write("kit/neighbour_of_a_plugin.py", "NAME = 'from-next-door'\n")
    write("kit/my.py", "from neighbour_of_a_plugin import NAME\n" + LOSS.replace('"log-margin"', "NAME"))
    plugins.load_plugin("kit/my.py")
    assert "from-next-door" in LOSSES


def test_an_unknown_part_may_be_a_plugins():
    for setting in ({"stage1": {"loss": "mine"}}, {"stage1": {"sampler": "mine"}}, {"model": {"head": "mine"}}):
        with pytest.raises(UsageError, match="with --plugin FILE"):
            load_recipe("digits-lt/ce", [setting])
    with pytest.raises(UsageError, match="add your own method with --plugin FILE"):
        load_recipe("digits-lt/mine")


def test_options_are_checked_like_those_of_our_own():
    plugins.load_plugin(write("my_loss.py", "from __future__ import annotations\n" + LOSS.partition("\n")[2]))
    stage = load_recipe("digits-lt/ce", [{"stage1": {"loss": "log-margin"}}]).stage1
    assert stage.loss.options == {"scale": 1.0, "tau": 1.0}
    with pytest.raises(UsageError, match=r"stage1\.loss: tau = "):
        load_recipe("digits-lt/ce", [{"stage1": {"loss": {"name": "log-margin", "tau": "x"}}}])


def test_a_sampler_gives_the_shares_it_says():
    plugins.load_plugin(write("my_parts.py", PARTS))
    weights = sample_weights("power", [16, 4, 0], exponent=0.5)
    assert weights * [16, 4, 0] == pytest.approx([4, 2, 0])


def test_a_method_may_be_a_file(home):
    write("m.toml", '# A file\n[stage1]\nepochs = 2\nloss = "ce"\n')
    tailcloud.register_method("a-file", home / "m.toml")
    assert load_recipe("digits-lt/a-file").method == "a-file"


def announce(monkeypatch, *values):
    entries = [EntryPoint(f"plugin{n}", value, discovery.GROUP) for n, value in enumerate(values)]
    monkeypatch.setattr(discovery, "entry_points", lambda group: entries)
    monkeypatch.syspath_prepend(".")


def test_packages_bring_parts_without_an_option(monkeypatch, home):
    write("package_one.py", LOSS)
    write(
        "package_two.py", LOSS.replace('"log-margin"', '"from-a-function"').replace("\ntail", "\ndef go():\n    tail")
    )
    announce(monkeypatch, "package_one", "package_two:go")
    assert "--plugin" not in call("train", "digits-lt/ce", "--set", "stage1.loss=log-margin", "--dry-run").output
    assert {"log-margin", "from-a-function"} <= set(LOSSES)
    assert plugins.plugins_fingerprint() == "package_one, package_two"


def test_a_package_that_fails_is_named_and_stops_nothing(monkeypatch):
    write("package_three.py", "x = 1 / 0\n")
    announce(monkeypatch, "package_three", "package_four")
    result = call("recipes", "ls")
    assert result.exit_code == 0
    assert 'The plugin "plugin0" of the package package_three cannot be loaded' in result.output
    assert "line 1: ZeroDivisionError: division by zero" in result.output
    assert "package_four" in result.output
    assert plugins.plugins_fingerprint() == ""


def test_help_asks_no_package(monkeypatch):
    monkeypatch.setattr(discovery, "entry_points", lambda group: pytest.fail("asked"))
    for words in ([], ["--help"], ["train", "--help"], ["inspect", "digits-lt"]):
        call(*words)


def test_a_plugin_works_in_a_process_of_its_own():
    """As a user has it: nothing imported before, the command line as it is installed."""
    write("my_loss.py", LOSS)
    command = [sys.executable, "-m", "tailcloud", "--plugin", "my_loss.py", "train", "digits-lt/ce", "--dry-run"]
    done = subprocess.run([*command, "--set", "stage1.loss=log-margin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "loss log-margin" in done.stdout
