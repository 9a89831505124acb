"""Every entry trains with the same driver: what one of them finds, refuses or says, the others do too.

Entries: the command line, the command line with several seeds (a fleet), torchrun with a world of one process,
``tailcloud.train`` and ``LongTailClassifier.fit``.
"""

import errno
import hashlib
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import tailcloud
from helpers.command_line import printed
from helpers.runs import Interrupted, StopAfter, Watcher, same_weights
from tailcloud import LongTailClassifier
from tailcloud.auto_recipe import timing
from tailcloud.cli import app
from tailcloud.cli.train import train_shared
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError, UsageError, explained
from tailcloud.launch.execute import Stopped
from tailcloud.launch.run_plan import TrainRequest
from tailcloud.launch.train import setting_words
from tailcloud.losses import LOSSES
from tailcloud.plugins import discovery
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.training.distributed.world import World
from tailcloud.training.model import first_model
from tailcloud.training.signals import Terminated

SMALL = {"model.width": 0.25, "stage1.epochs": 1}
PLUGIN = """
from torch import Tensor
from torch.nn import functional as F

from tailcloud import register_loss
from tailcloud.losses import Loss


class EntriesLoss(Loss):
    def __init__(self, counts) -> None:
        super().__init__(1.0)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        return F.cross_entropy(output, target)


register_loss("entries-loss", EntriesLoss)
"""


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    """A folder with the digits as a file, on a machine that is timed quickly."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "MIN_TIMED_SECONDS", {"cpu": 0.001})
    digits = open_dataset("digits-lt")
    parts = {"x_train": digits.train.images, "y_train": digits.train.labels}
    np.savez(tmp_path / "mine.npz", x_test=digits.test.images, y_test=digits.test.labels, **parts)


def words(settings):
    return [word for setting in setting_words(settings) for word in ("--set", setting)]


def command_line(settings, budget=None, recipe="own/ce", seeds=()):
    """What the command prints; ``recipe`` None lets it choose one."""
    line = ["train", *([recipe] if recipe else []), "--data", "mine.npz", "--device", "cpu", *words(settings)]
    line += ["--time-budget", budget] if budget else []
    for seed in seeds:
        line += ["--seed", str(seed)]
    return " ".join(printed([*line, "--out", "cli-run"]).split())


def fleet(settings, budget=None, recipe="own/ce"):
    return command_line(settings, budget, recipe, seeds=(0, 1))


def python_call(settings, budget=None, recipe="own/ce"):
    """The notes of ``tailcloud.train``."""
    watcher = Watcher()
    options = {"data": "mine.npz", "device": "cpu", "settings": settings, "out": "api-run"}
    tailcloud.train(recipe, time_budget=budget, observer=watcher, **options)
    return " ".join(watcher.notes)


@pytest.fixture
def torchrun(capsys, monkeypatch):
    """What rank 0 prints under torchrun, here in a world of one process."""
    monkeypatch.setattr("tailcloud.cli.console._error_prefix", "")

    def train(settings, budget=None, recipe="own/ce"):
        request = TrainRequest(
            recipes=[recipe] if recipe else [],
            data="mine.npz",
            settings=setting_words(settings),
            out=Path("torchrun-run"),
            device="cpu",
            time_budget=budget,
        )
        train_shared(request, World())
        printed = capsys.readouterr()
        return " ".join(f"{printed.out} {printed.err}".split())

    return train


@pytest.fixture
def estimator(capsys):
    """The notes of ``fit`` on a file, which always chooses its recipe."""

    def fit(settings, budget=None, recipe="own/ce"):
        LongTailClassifier("ce", settings=settings, device="cpu", time_budget=budget, verbose=1).fit("mine.npz")
        return " ".join(capsys.readouterr().out.split())

    return fit


@pytest.fixture(params=["command line", "fleet", "tailcloud.train", "torchrun", "fit"])
def entry(request, torchrun, estimator):
    entries = {"command line": command_line, "fleet": fleet, "tailcloud.train": python_call}
    return {**entries, "torchrun": torchrun, "fit": estimator}[request.param]


def refused(entry, settings, **options):
    """The sentence of an error; nothing may have been written."""
    with pytest.raises(TailcloudError) as error:
        entry(SMALL | settings, **options)
    assert not list(Path.cwd().glob("*-run/**/recipe.toml"))
    return str(error.value)


@pytest.fixture
def weights(tmp_path):
    """A file of weights below ROOT, and its SHA-256."""
    recipe = load_recipe("own/ce", [{"data": "mine.npz", "model": {"backbone": "resnet8", "width": 0.25}}])
    model, _ = first_model(recipe, open_dataset("digits-lt"))
    file = tmp_path / "files" / "weights" / "small.safetensors"
    file.parent.mkdir(parents=True)
    save_file(model.backbone.state_dict(), file)
    return hashlib.sha256(file.read_bytes()).hexdigest()


BELOW_ROOT = {"model.weights": "weights/small.safetensors", "model.backbone": "resnet8", "root": "files"}


def test_weights_below_root_are_found(entry, weights):
    entry(SMALL | BELOW_ROOT | {"model.weights_sha256": weights[:16]})  # refused if it is not found


def test_a_wrong_digest_is_refused_before_anything_is_written(entry, weights):
    sentence = refused(entry, BELOW_ROOT | {"model.weights_sha256": "0" * 16})
    assert sentence.startswith(f'model.weights = "files/weights/small.safetensors" has the SHA-256 {weights}, but')


def test_missing_weights_are_refused_before_anything_is_written(entry):
    assert refused(entry, BELOW_ROOT).startswith('model.weights = "weights/small.safetensors" does not exist; download')


def test_a_backbone_that_stays_random_is_noted(entry):
    text = entry(SMALL | {"stage1.train": "head"})
    assert "keep their random initial weights" in text


def test_a_device_that_is_missing_is_refused_before_anything_is_written(entry):
    assert refused(entry, {"engine.precision": "bfloat16"}) == (
        'engine.precision = "bfloat16" needs --device cuda, not cpu'
    )


def test_a_missing_package_is_refused_before_anything_is_written(entry, monkeypatch):
    monkeypatch.setattr("tailcloud.training.tensorboard_log.find_spec", lambda _: None)
    assert refused(entry, {"logging.tensorboard": True}).startswith(
        "logging.tensorboard = true needs the package tensorboard"
    )


def test_a_stage_that_needs_held_out_images_is_refused_before_anything_is_written(entry):
    settings = {"stage3.head_transform": "tuned-logit-adjust", "selection.split": 0}
    assert "mine.npz has no validation split" in refused(entry, settings)


def test_the_loss_of_a_plugin_is_used(entry, tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    tailcloud.load_plugin("plugin.py")
    try:
        entry(SMALL | {"stage1.loss": "entries-loss"})
    finally:
        del LOSSES["entries-loss"]
        del discovery._files[(tmp_path / "plugin.py").resolve()]


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("soon", '--time-budget "soon" is not a time; write for example 90s, 10m, 1.5h or 1h30m'),
        ("0s", '--time-budget "0s" must be more than 0 s and at most'),
    ],
)
def test_a_wrong_time_budget_is_refused(entry, budget, sentence):
    assert refused(entry, {}, budget=budget, recipe=None).startswith(sentence)


@pytest.mark.parametrize("entry", ["command line", "fleet", "tailcloud.train", "torchrun"], indirect=True)
def test_a_time_budget_and_a_recipe_are_refused(entry):
    sentence = refused(entry, {}, budget="1m")
    assert sentence.startswith("a time budget chooses a recipe, and own/ce is a recipe already; leave out one of them")


def test_a_chosen_recipe_has_reasons(entry):
    assert "Images are not flipped" in entry(SMALL, budget="1m", recipe=None)


def test_every_entry_gives_the_same_model(torchrun):
    settings = SMALL | {"stage1.epochs": 2, "method": "ce"}
    for call in (command_line, python_call, torchrun):
        call(settings)
    fleet_settings = [*words(settings), "--seed", "0", "--seed", "1", "--out", "fleet"]
    printed(["train", "own/ce", "--data", "mine.npz", "--device", "cpu", *fleet_settings])
    for other in ("api-run", "torchrun-run", "fleet/seed0"):
        assert same_weights(Path("cli-run"), Path(other))
        assert (Path(other) / "report.html").is_file()


@pytest.mark.parametrize("seed", [[0, 1], (0,), range(2), "0", 1.0, True])
def test_a_seed_that_is_no_whole_number_is_refused_with_the_way_to_several(seed):
    with pytest.raises(UsageError, match=r'seed = .* call tailcloud.train once for each, or run "tailcloud train --s'):
        tailcloud.train("digits-lt/ce", settings=SMALL, seed=seed)
    assert not Path("runs").exists()


def test_a_run_on_another_ratio_by_name_with_a_seed_of_numpy():
    run = tailcloud.train("digits-lt:20/ce", settings=SMALL, device="cpu", seed=np.int64(3))
    assert run.path == Path("runs/digits-lt-20-ce-seed3")
    assert (run.recipe.data.spec, run.recipe.seed) == ("digits-lt:20", 3)


def test_train_returns_a_typed_run():
    run = tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", seed=3)
    assert isinstance(run, tailcloud.Run)
    assert run.path == Path("runs/digits-lt-ce-seed3")
    assert run.recipe.seed == run.result.protocol.seed == 3
    assert run.report.is_file()
    assert run.model.class_names == [str(digit) for digit in range(10)]
    assert run.model is run.model
    with pytest.raises(AttributeError):
        run.path = Path("elsewhere")


def test_train_never_overwrites_a_run():
    tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="run")
    before = (Path("run") / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(TailcloudError, match="run already holds a run"):
        tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="run")
    watcher = Watcher()
    again = tailcloud.train(resume=True, out="run", observer=watcher)
    assert watcher.notes == ["run is finished already."]
    assert again.result.method == "ce"
    assert (Path("run") / "model.safetensors").stat().st_mtime_ns == before


def test_an_interrupted_call_is_resumed_with_the_same_model():
    settings = {"model.width": 0.25, "stage1.epochs": 3, "stage2.epochs": 1, "engine.checkpoint_seconds": 0}
    options = {"settings": settings, "device": "cpu"}
    tailcloud.train("digits-lt/gcl", out="whole", **options)
    with pytest.raises(Interrupted):
        tailcloud.train("digits-lt/gcl", out="parts", observer=StopAfter(2), **options)
    tailcloud.train(resume=True, out="parts", device="cpu")
    assert same_weights(Path("whole"), Path("parts"))


class CtrlC(Watcher):
    def epoch_done(self, line):
        raise KeyboardInterrupt


def test_ctrl_c_says_how_to_resume():
    with pytest.raises(TailcloudError, match=r'continue with "tailcloud train --resume --out run"') as error:
        tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="run", observer=CtrlC())
    assert error.value.exit_code == 130


def test_a_recipe_object_is_trained_and_its_command_repeats_the_run():
    recipe = load_recipe("digits-lt/ce", [{"model": {"width": 0.25}, "stage1": {"epochs": 5}}])
    first = tailcloud.train(recipe, settings=["stage1.epochs=1"], device="cpu", out="first")
    assert first.recipe.stage1.epochs == 1
    command = shlex.split(first.result.command)
    assert command == ["tailcloud", "train", "first/recipe.toml"]
    printed([*command[1:], "--device", "cpu", "--out", "second"])
    assert same_weights(Path("first"), Path("second"))


def test_settings_as_a_table_or_a_list_are_the_same_command():
    table = {"model": {"width": 0.25}, "stage1.epochs": 1, "stage1.loss": "ce"}
    first = tailcloud.train("digits-lt/ce", settings=table, device="cpu", out="first")
    assert first.recipe.model.width == 0.25
    command = shlex.split(first.result.command)[1:]
    printed([*command, "--device", "cpu", "--out", "second"])
    assert same_weights(Path("first"), Path("second"))
    for wrong in ("stage1.epochs=1", {"stage1.lr": None}, [1]):
        with pytest.raises(UsageError, match="settings"):
            tailcloud.train("digits-lt/ce", settings=wrong)


def test_an_open_data_set_is_trained_on_as_its_name_is():
    named = tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="named")
    opened = tailcloud.train("digits-lt/ce", data=open_dataset("digits-lt"), settings=SMALL, device="cpu", out="opened")
    assert same_weights(named.path, opened.path)
    with pytest.raises(UsageError, match=r"data\.size = 16, and digits-lt is open already with images of 8 pixels"):
        tailcloud.train(
            "own/ce", data=open_dataset("digits-lt"), settings=SMALL | {"data.size": 16}, device="cpu", out="other"
        )


def test_data_that_changed_between_two_calls_are_read_again():
    options = {"data": "mine.npz", "settings": SMALL, "device": "cpu"}
    first = tailcloud.train("own/ce", out="first", **options)
    digits = open_dataset("digits-lt")
    parts = {"x_train": digits.train.images[::-1], "y_train": digits.train.labels[::-1]}
    np.savez("mine.npz", x_test=digits.test.images, y_test=digits.test.labels, **parts)
    second = tailcloud.train("own/ce", out="second", **options)
    assert first.result.dataset.fingerprint != second.result.dataset.fingerprint


def test_training_leaves_the_threads_of_the_process_alone():
    torch.set_num_threads(2)
    try:
        tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_nothing_is_printed_and_notes_are_logged(capsys, caplog):
    with caplog.at_level("INFO", logger="tailcloud"):
        tailcloud.train("digits-lt/ce", settings=SMALL | {"stage1.train": "head"}, device="cpu", out="run")
    assert any("keep their random initial weights" in message for message in caplog.messages)
    assert any(message.startswith("stage1 epoch 1: loss") for message in caplog.messages)


def test_settings_may_be_numpy_numbers():
    settings = {"stage1.epochs": np.int64(3), "stage1.lr": np.float32(0.5), "selection.pick": "last"}
    assert setting_words(settings) == ["stage1.epochs=3", "stage1.lr=0.5", 'selection.pick="last"']


def test_ctrl_c_before_the_run_folder_exists_promises_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tailcloud.launch.execute.open_data", interrupt)
    with pytest.raises(Stopped, match="stopped before training started; nothing was written"):
        tailcloud.train("digits-lt/gcl", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated])
def test_a_stop_before_the_run_folder_exists_advises_no_resume(stop, tmp_path, monkeypatch):
    def interrupt(*_):
        raise stop

    monkeypatch.setattr("tailcloud.launch.execute.open_data", interrupt)
    with pytest.raises((Stopped, Terminated), match=r"^stopped before .* nothing was written") as stopped:
        tailcloud.train("digits-lt/gcl", out=tmp_path / "run")
    assert "--resume" not in str(stopped.value)


@pytest.mark.parametrize("started", [False, True])
def test_a_full_disk_advises_a_resume_only_if_the_run_has_started(started, tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "run/log.jsonl")

    monkeypatch.setattr(RunFolder, "truncate_log" if started else "create", no_room)
    with pytest.raises((TailcloudError, OSError)) as full:
        tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out=tmp_path / "run")
    said = str(explained(full.value))
    assert said.startswith("the disk is full: run/log.jsonl could not be written; free some space, then ")
    assert said.endswith("continue with --resume" if started else "run the command again")


def test_ctrl_c_while_a_recipe_is_chosen_says_that_nothing_was_written(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tailcloud.launch.run_plan.plan_runs", interrupt)
    result = CliRunner().invoke(app, ["train", "--data", "mine.npz"])
    assert isinstance(result.exception, Stopped)
    assert str(result.exception) == "stopped before training started; nothing was written"


def test_a_run_is_shown_in_one_line():
    run = tailcloud.train("digits-lt/ce", settings=SMALL, device="cpu", out="shown")
    assert repr(run) == f"Run('shown': ce on digits-lt, top-1 {run.result.top1.last:.1f} %)"
