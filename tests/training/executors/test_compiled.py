"""Compiled steps do what eager ones do, compile only what they must, and give way when they cannot compile."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.cpp_builder import cpp_compiler_search
from typer.testing import CliRunner

from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights, small_recipe
from tailcloud.backbones import BACKBONES, Backbone
from tailcloud.backbones.efficientnet_lite import InvertedResidual
from tailcloud.cli import app
from tailcloud.data.dataset import Dataset, Split
from tailcloud.errors import UsageError
from tailcloud.recipe import Engine
from tailcloud.runs.checkpoint import read_latest_state
from tailcloud.training.devices import check_engine
from tailcloud.training.executors import compiled
from tailcloud.training.executors.compiled import CannotCompile
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts
from tailcloud.training.stages.trainable import set_modes

CPU = torch.device("cpu")
IMAGES = 23  # in batches of 8: two whole ones, and an odd last one
CHANGING = [0.3, 0.3, 0.1, 0.1, 0.1, 0.03, 0.03]  # learning rates of seven epochs
HARD = {"stage2": {"loss": {"name": "gcl", "margin": 0.1, "focal": 1.0}, "mixup": 0.4, "batch_norm": "moving"}}
needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="there is no C++ compiler on this machine"
)


class SmallBackbone(nn.Module):
    """As much as a C++ compiler gets through in seconds."""

    def __init__(self, features):
        super().__init__()
        self.features = features
        self.conv, self.norm = nn.Conv2d(1, features, 3, padding=1, bias=False), nn.BatchNorm2d(features)

    def forward(self, images):
        return torch.relu(self.norm(self.conv(images))).mean(dim=(2, 3))


class ResidualBackbone(Backbone):
    """The blocks of an EfficientNet-Lite; two of four can be dropped."""

    features = 4

    def __init__(self, *, channels, width):
        super().__init__()
        shapes = [(channels, 3, 3), (3, 3, 3), (3, 4, 3), (4, 4, 3)]
        self.blocks = nn.ModuleList(InvertedResidual(inputs, outputs, k, 1, 2) for inputs, outputs, k in shapes)

    def residual_blocks(self):
        return [block for block in self.blocks if block.shortcut]

    def forward(self, images, path_weights=None):
        weights = iter([None, None] if path_weights is None else path_weights.unbind(1))
        for block in self.blocks:
            images = block(images, next(weights) if block.shortcut else None)
        return images.mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def forgetful():
    """Each test compiles for itself."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def light(monkeypatch):
    """PyTorch's tracing, joint graph and functional batch norm, without a C++ compiler."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")


@pytest.fixture
def graphs(monkeypatch):
    """Every graph that is compiled; they run as they are."""
    seen = []

    def count(graph, inputs):
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr(compiled, "BACKEND", count)
    return seen


def some_data():
    labels = np.sort(np.arange(IMAGES) % 3)
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 6, 6, 1)).astype(np.uint8)
    return Dataset("synthetic", Split(images, labels), Split(images, labels), list("abc"), [0.5], [0.25])


def stage_of(executor, *settings, name="stage1", dtype=torch.float64, backbone=None):
    """A stage that is ready to train, always from the same state."""
    made = Session(small_recipe({"stage1": {"batch": 8}, "stage2": {"batch": 8}}, *settings), some_data(), CPU)
    if backbone:
        torch.manual_seed(0)
        made.model.backbone = backbone(made.model.backbone.features)
    made.engine.executor, normalise = executor, made.transform
    made.model.to(dtype)
    made.transform = lambda images: normalise(images).to(dtype)
    stage = made.recipe.stages[name]
    parts = make_parts(made, name)
    set_modes(made.model, stage)
    parts.executor.prepare()
    return parts


def state_of(parts):
    model = parts.executor.step.model
    return {**model.state_dict(), **parts.optimizer.state}


def trained(parts, lrs):
    """Losses, weights, statistics and momentum after an epoch with each learning rate."""
    losses = torch.cat([parts.executor.epoch(number, [lr] * parts.loader.steps) for number, lr in enumerate(lrs)])
    return {"losses": losses, **state_of(parts)}


def compare(eager, other, **tolerance):
    assert eager.keys() == other.keys()
    for name, value in eager.items():
        torch.testing.assert_close(other[name], value, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.mark.parametrize("name", ["stage1", "stage2"])
def test_one_step_is_the_eager_one(light, name):
    settings = ({name: {"batch": 100}}, HARD)
    runs = [trained(stage_of(kind, *settings, name=name, dtype=torch.float32), [0.1]) for kind in ("eager", "compiled")]
    assert len(runs[0]["losses"]) == 1
    compare(*runs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["stage1", "stage2"])
def test_twenty_steps_are_the_eager_ones(light, name):
    before = state_of(stage_of("eager", HARD, name=name))
    eager, other = (trained(stage_of(kind, HARD, name=name), CHANGING) for kind in ("eager", "compiled"))
    assert len(eager["losses"]) == 21
    compare(eager, other, rtol=1e-9, atol=1e-12)
    moved = {key for key in before if not torch.equal(before[key], eager[key])}
    assert ("backbone.conv1.weight" in moved) == (name == "stage1")
    assert {"head.weight", "momentum.head.weight", "backbone.bn1.running_var"} <= moved


def test_steps_with_sam_are_the_eager_ones(light):
    settings = {"stage1": {"sam": 0.1, "ema": 0.9, "mixup": 1.0}}
    eager, other = (trained(stage_of(kind, settings), CHANGING) for kind in ("eager", "compiled"))
    compare(eager, other, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(eager["losses"], trained(stage_of("eager"), CHANGING)["losses"])


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "lrs", "tolerance"),
    [(torch.float64, CHANGING, {"rtol": 1e-9, "atol": 1e-12}), (torch.float32, [0.1], {"rtol": 1e-4, "atol": 1e-5})],
)
def test_code_from_the_c_compiler_computes_the_eager_steps(dtype, lrs, tolerance):
    one_batch = {"stage1": {"batch": 100}}  # the compiler takes seconds for each size
    runs = [
        trained(stage_of(kind, one_batch, backbone=SmallBackbone, dtype=dtype), lrs) for kind in ("eager", "compiled")
    ]
    compare(*runs, **tolerance)


def test_getting_ready_changes_nothing(light):
    eager, other = (stage_of(kind, backbone=SmallBackbone) for kind in ("eager", "compiled"))
    compare(state_of(eager), state_of(other), rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in other.parameters.values())


def test_a_run_compiles_each_stage_once_for_each_size_of_batch(tmp_path, graphs):
    """Evaluation and its mode, warm-up and other learning rates, epochs: none of them compiles anything again."""
    settings = {"stage1": {"epochs": 4}, "stage2": {"epochs": 3}, "engine": {"executor": "compiled"}}
    result = run(tmp_path / "run", small_recipe(settings))
    assert result.machine["executor"] == "compiled"
    assert len(graphs) == 4  # of 64 and of 11 images, in two stages


def test_drop_path_compiles_and_drops_what_eager_steps_drop(light, monkeypatch):
    monkeypatch.setitem(BACKBONES, "small", ResidualBackbone)
    settings = {"model": {"backbone": "small", "drop_path": 0.5}}
    runs = [trained(stage_of(kind, settings), [0.01, 0.01]) for kind in ("eager", "compiled")]
    compare(*runs, rtol=1e-9, atol=1e-12)
    without = trained(stage_of("eager", {"model": settings["model"] | {"drop_path": 0.0}}), [0.01, 0.01])
    assert not torch.allclose(without["losses"], runs[0]["losses"])


def test_many_runs_in_one_process_are_all_compiled(graphs):
    for batch in range(4, 12):
        parts = stage_of("compiled", {"stage1": {"batch": batch}}, backbone=SmallBackbone)
        ready = len(graphs)
        trained(parts, [0.1])
        assert len(graphs) == ready
    assert len(graphs) > 8  # where PyTorch would give up by itself


def test_runs_in_threads_compile_one_after_the_other(light):
    batches = [8, 8, 9, 10]
    alone, ready = (
        [stage_of("eager", {"stage1": {"batch": batch}}, backbone=SmallBackbone) for batch in batches] for _ in range(2)
    )

    def train(parts):
        executor = compiled.CompiledExecutor(parts.executor.step, parts.loader)
        executor.prepare()
        return {"losses": executor.epoch(0, [0.1] * parts.loader.steps), **state_of(parts)}

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, ready))
    for parts, other in zip(alone, together, strict=True):
        compare(trained(parts, [0.1]), other, rtol=1e-9, atol=1e-12)


COMPILED = {"engine": {"executor": "compiled"}}


@pytest.mark.slow
def test_an_interrupted_compiled_run_ends_where_it_would_have_ended(tmp_path, light):
    recipe = small_recipe(COMPILED, {"stage1": {"batch": 400}, "stage2": {"batch": 400}})  # one size to compile
    run(tmp_path / "undisturbed", recipe)
    torch._dynamo.reset()
    watcher = Watcher()
    for epochs in (2, 2):  # in stage 1, then in stage 2
        with pytest.raises(Interrupted):
            run(tmp_path / "broken", recipe, StopAfter(epochs))
        assert read_latest_state(tmp_path / "broken" / "checkpoint")["environment"]["executor"] == "compiled"
    result = run(tmp_path / "broken", recipe, watcher)
    assert watcher.notes == []
    assert result.machine["executor"] == "compiled"
    assert same_weights(tmp_path / "undisturbed", tmp_path / "broken")


def refuse(graph, inputs):
    raise RuntimeError("there is no such thing\nas a free lunch")


def refuse_backward(graph, inputs):
    return aot_autograd(fw_compiler=lambda graph, inputs: graph.forward, bw_compiler=refuse)(graph, inputs)


SENTENCE = (
    "torch.compile failed here (there is no such thing), so the steps run eagerly: "
    "the result is as good, but not bit-identical to that of a compiled run."
)


@pytest.mark.parametrize("backend", [refuse, refuse_backward])
def test_without_a_compiler_a_run_is_the_eager_one_and_says_so_once(
    tmp_path, finished_run, monkeypatch, capfd, backend
):
    monkeypatch.setattr(compiled, "BACKEND", backend)
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(COMPILED), watcher)
    assert watcher.notes == [SENTENCE]
    assert result.machine["executor"] == "eager"
    assert read_latest_state(tmp_path / "run" / "checkpoint")["environment"]["executor"] == "eager"
    assert same_weights(finished_run, tmp_path / "run")
    assert capfd.readouterr() == ("", "")


def test_a_compiler_that_fails_leaves_the_stage_as_it_was(monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", refuse_backward)
    parts = stage_of("eager")
    before = {name: value.clone() for name, value in state_of(parts).items()}
    executor = compiled.CompiledExecutor(parts.executor.step, parts.loader)
    with pytest.raises(CannotCompile, match="no such thing"):
        executor.prepare()
    compare(before, state_of(parts), rtol=0, atol=0)
    assert executor.step is parts.executor.step
    assert all(p.grad is None for p in parts.parameters.values())


def test_a_run_that_began_eagerly_goes_on_eagerly(tmp_path, finished_run, monkeypatch):
    recipe = small_recipe(COMPILED)
    monkeypatch.setattr(compiled, "BACKEND", refuse)
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(2))
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    watcher = Watcher()
    run(tmp_path / "run", recipe, watcher)
    assert watcher.notes == ["This run continues with eager steps, as it was started; a new run would be compiled."]
    assert same_weights(finished_run, tmp_path / "run")


def test_a_compiled_run_that_cannot_go_on_so_says_that_bits_differ(tmp_path, monkeypatch, graphs):
    recipe = small_recipe(COMPILED)
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(4))
    monkeypatch.setattr(compiled, "BACKEND", refuse)
    torch._dynamo.reset()
    watcher = Watcher()
    result = run(tmp_path / "run", recipe, watcher)
    assert watcher.notes == [SENTENCE]
    assert result.machine["executor"] == "eager"
    assert [stage.executor for stage in result.stages] == ["compiled", "eager"]


def test_compiling_that_is_switched_off_is_not_passed_over():
    with torch._dynamo.config.patch(disable=True), pytest.raises(CannotCompile, match="TORCH_COMPILE_DISABLE is set"):
        stage_of("compiled")


@pytest.fixture
def broken_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (shutil.which("false"),))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    cpp_compiler_search.cache_clear()
    yield
    cpp_compiler_search.cache_clear()


@pytest.mark.slow
def test_a_broken_c_compiler_costs_one_sentence_and_nothing_else(tmp_path, broken_compiler, capfd):
    words = ["train", "--device", "cpu", "--out", str(tmp_path / "run"), "--set", "engine.executor=compiled"]
    for setting in ("model.width=0.25", "stage1.epochs=1", "stage2.epochs=1"):
        words += ["--set", setting]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stderr.startswith("note: torch.compile failed here (No working C++ compiler found")
    assert done.stderr.count("note:") == 1
    assert "Traceback" not in done.stderr
    assert capfd.readouterr() == ("", "")


def test_only_long_runs_on_a_cpu_are_compiled_by_themselves():
    def chosen(epochs):
        recipe = small_recipe({"model": {"width": 4.0}, "stage1": {"epochs": epochs}})
        return Session(recipe, some_data(), CPU).engine.executor

    assert chosen(60) == "eager"
    assert chosen(1_000_000) == "compiled"


def test_compiled_steps_are_refused_where_nobody_tested_them():
    check_engine(Engine(executor="compiled"), CPU)
    check_engine(Engine(executor="compiled"), torch.device("cuda"))
    with pytest.raises(UsageError, match="needs --device cpu or cuda, not mps"):
        check_engine(Engine(executor="compiled"), torch.device("mps"))
