"""Where the fused kernels cannot be used: PyTorch's own are, with one sentence, or the run is refused. Needs no GPU."""

import importlib.util
from subprocess import CalledProcessError
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.runs import Interrupted, StopAfter, Watcher, run, small_recipe
from tailcloud import kernels
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.dataset import Dataset, Split
from tailcloud.data.loaders.resident import ResidentLoader
from tailcloud.errors import UsageError
from tailcloud.kernels import CannotFuse
from tailcloud.objectives import Classify
from tailcloud.recipe import Engine
from tailcloud.training import engine as engines
from tailcloud.training import loop
from tailcloud.training.devices import check_engine
from tailcloud.training.engine import RunEngine
from tailcloud.training.executors import cuda_graph
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SENTENCE = "The fused kernels do not compile here (no such luck); PyTorch's own kernels are used, which are slower."
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there is no triton here")


class OtherLoader(ResidentLoader):
    """A loader that can be told from the plain one."""


class OtherObjective(Classify):
    """An objective that can be told from the plain one."""


class FakeNetwork:
    """Computes as the model does, and has a loader and an objective of its own."""

    failing = False

    def __init__(self, model, height, width):
        self.model, self.loader, self.backbone = model, OtherLoader, SimpleNamespace(compile=self.compile)

    def compile(self, beside):
        if self.failing:
            raise CannotFuse("no such luck")

    def objective(self, plain):
        return OtherObjective(plain.loss)

    @property
    def head(self):
        return self.model.head

    def features(self, images):
        return self.model.features(images)

    def __call__(self, images):
        return self.model(images)


@pytest.fixture
def fake(monkeypatch):
    """Fused kernels fit everywhere, though there are none."""
    monkeypatch.setattr(FakeNetwork, "failing", False)
    monkeypatch.setattr(engines, "FusedNetwork", FakeNetwork)
    monkeypatch.setattr(RunEngine, "obstacle", lambda engine: None)
    return FakeNetwork


def session(*settings):
    labels = np.arange(12) % 3
    part = Split(np.random.default_rng(0).integers(0, 256, (12, 6, 6, 1), dtype=np.uint8), labels)
    data = Dataset("synthetic", part, part, list("abc"), [0.5], [0.25])
    return Session(small_recipe({"stage1": {"batch": 8}}, *settings), data, CPU)


def engine(**settings):
    return {"engine": settings}


def test_a_cpu_has_none_and_says_so_only_when_asked():
    assert session().engine.fused is None
    assert session().remarks == []
    assert session().environment["kernels"] == "plain"
    with pytest.raises(UsageError, match=r'engine\.kernels = "fused" is not possible here: they need --device cuda'):
        session(engine(kernels="fused"))
    with pytest.raises(UsageError, match=r'engine\.kernels = "fused" needs --device cuda, not cpu'):
        check_engine(Engine(kernels="fused"), CPU)
    check_engine(Engine(kernels="fused"), CUDA)
    check_engine(Engine(kernels="auto"), CPU)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"precision": "float32"}, 'they compute in bfloat16, not in engine.precision = "float32"'),
        ({"executor": "compiled"}, 'engine.executor = "compiled" makes its own kernels'),
        ({}, "it is Monday"),
    ],
)
def test_what_stands_in_the_way_on_a_gpu(monkeypatch, settings, sentence):
    monkeypatch.setattr(engines, "obstacle", lambda model, height, width, *augments: "it is Monday")
    made = session(engine(**settings))
    made.engine.device = CUDA
    assert made.engine.obstacle() == sentence
    assert made.engine.fused_network() is None
    made.engine.recipe = small_recipe(engine(**settings, kernels="fused"))
    with pytest.raises(UsageError, match="not possible here: " + sentence):
        made.engine.fused_network()


class FakeLayers:
    """Layers that compile, or fail to."""

    failing, last = False, None

    def __init__(self, model, *, convolutions, norms):
        self.kinds = {name for name, taken in (("convolutions", convolutions), ("norms", norms)) if taken}
        self.compiled, self.removed, type(self).last = None, False, self

    def compile(self, height, width):
        if self.failing:
            raise CannotFuse("no such luck")
        self.compiled = height, width

    def remove(self):
        self.removed = True


@pytest.fixture
def fake_layers(monkeypatch):
    """Every network has layers for which there are kernels."""
    monkeypatch.setattr(engines, "has_fused_layers", lambda model: True)
    monkeypatch.setattr(engines, "FusedLayers", FakeLayers)
    monkeypatch.setattr(FakeLayers, "failing", False)


@pytest.mark.parametrize(
    ("asked", "flops", "executor", "taken"),
    [
        ("auto", 1e14, "graphed", {"convolutions", "norms"}),
        ("auto", 1e14, "eager", {"convolutions"}),
        ("auto", 1e16, "graphed", {"norms"}),
        ("auto", 1e16, "eager", set()),
        ("auto", 0, "graphed", set()),
        ("fused", 1e16, "graphed", {"convolutions", "norms"}),
        ("fused", 1e16, "eager", {"convolutions", "norms"}),
        ("plain", 1e14, "graphed", set()),
    ],
)
def test_convolutions_that_start_sooner_are_for_short_runs_and_norms_for_graphs(
    monkeypatch, fake_layers, asked, flops, executor, taken
):
    made = session().engine
    made.device, made.recipe, made.executor = CUDA, small_recipe(engine(kernels=asked)), executor
    monkeypatch.setattr(RunEngine, "flops", flops)
    made.layers = made.fused_layers()
    assert (made.layers.kinds if made.layers else set()) == taken
    assert made.kernels == ("fused" if taken else "plain")
    monkeypatch.setattr(engines, "environment", lambda device: {})
    assert made.environment.get("fused_layers", set()) == taken  # other kernels, other bits: a resumed run is told
    if taken:
        layers = made.layers
        assert (layers.compiled, layers.removed) == (made.dataset.shape[:2], False)
        made.use_plain_kernels()
        assert (layers.removed, made.layers, made.kernels) == (True, None, "plain")


def test_layers_that_do_not_compile_are_pytorchs(monkeypatch, fake_layers):
    made = session().engine
    made.device, made.recipe = CUDA, small_recipe(engine(kernels="fused"))
    monkeypatch.setattr(FakeLayers, "failing", True)
    assert made.fused_layers() is None
    assert FakeLayers.last.removed
    assert "do not compile here (no such luck)" in made.remarks[-1]


def model_of(width):
    model = build_classifier(Architecture("resnet8", "cosine", width, 3, 5), 0)
    return model.to(memory_format=torch.channels_last)


def test_without_triton_there_are_none(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: None if name == "triton" else importlib.util.find_spec(name))
    assert kernels.obstacle(model_of(0.25), 32, 32) == "the package triton is not installed"


@needs_triton
def test_they_are_for_small_networks():
    assert kernels.obstacle(model_of(1.0), 32, 32) is None
    sentence = "they are made for small residual networks of at most 64 channels"
    assert kernels.obstacle(model_of(2.0), 32, 32) == sentence


def test_fused_kernels_bring_their_loader_and_objective(fake):
    made = session()
    assert made.engine.network is made.engine.fused
    assert made.environment["kernels"] == "fused"
    parts = make_parts(made, "stage1")
    assert type(parts.loader) is OtherLoader
    assert type(parts.executor.step.objective) is OtherObjective
    assert parts.executor.step.network is made.engine.fused
    assert session(engine(kernels="plain")).engine.fused is None


def test_kernels_that_do_not_compile_cost_one_sentence(tmp_path, finished_run, fake, monkeypatch):
    monkeypatch.setattr(fake, "failing", True)
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(), watcher)
    assert watcher.notes == [SENTENCE]
    assert result.machine["kernels"] == "plain"
    assert (tmp_path / "run/model.safetensors").read_bytes() == (finished_run / "model.safetensors").read_bytes()


def test_a_run_that_was_started_with_pytorchs_kernels_keeps_them(tmp_path, finished_run, monkeypatch):
    """An older version, or another machine, may have had none for it."""
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(), StopAfter(1))
    monkeypatch.setattr(FakeNetwork, "failing", False)
    monkeypatch.setattr(engines, "FusedNetwork", FakeNetwork)
    monkeypatch.setattr(RunEngine, "obstacle", lambda engine: None)
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(), watcher)
    assert watcher.notes == [
        "This run continues with PyTorch's kernels, as it was started; a new run would use fused ones."
    ]
    assert result.machine["kernels"] == "plain"
    assert (tmp_path / "run/model.safetensors").read_bytes() == (finished_run / "model.safetensors").read_bytes()


def refuse_fused(work, warm_up, generator):
    """In the place of capturing a graph: kernels that fail after a step has changed the model."""
    warm_up()
    if type(warm_up.func.__self__.loader) is OtherLoader:
        raise CannotFuse("no such luck")


def test_a_stage_that_cannot_be_fused_is_made_anew_as_it_was(fake, monkeypatch):
    monkeypatch.setattr(cuda_graph, "capture", refuse_fused)
    monkeypatch.setattr(RunEngine, "automatic_executor", "graphed")
    made, watcher = session(), Watcher()
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    parts = loop.prepare_stage(made, "stage1", watcher)
    assert watcher.notes == [SENTENCE]
    assert made.environment["kernels"] == "plain"
    assert type(parts.loader) is ResidentLoader
    assert type(parts.executor.step.objective) is Classify
    assert parts.executor.step.network is made.model
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())
    assert loop.prepare_stage(made, "stage2", watcher).executor.step.network is made.model
    assert watcher.notes == [SENTENCE]


class Failing:
    """A kernel that cannot be started."""

    def __init__(self, error):
        self.error = error

    def __getitem__(self, grid):
        raise self.error


@needs_triton
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CalledProcessError(1, ["ptxas"]), "ptxas"),
        (RuntimeError("Failed to find C compiler. Please specify via CC"), "Failed to find C compiler"),
        (RuntimeError("PassManager::run failed"), "PassManager::run failed"),
        ("OutOfResources", "out of resource: shared memory"),
        ("CompilationError", "no such luck"),
    ],
)
def test_a_kernel_that_does_not_compile_says_why_in_a_line(error, reason):
    from triton.compiler import CompilationError
    from triton.runtime.errors import OutOfResources

    from tailcloud.kernels.launch import launch

    if error == "OutOfResources":
        error = OutOfResources(300_000, 232_448, "shared memory")
    elif error == "CompilationError":
        error = CompilationError("x = 1", None, "first line\n\nno such luck\n")
    with pytest.raises(CannotFuse, match=reason) as caught:
        launch(Failing(error), (1,))
    assert "\n" not in str(caught.value)


@needs_triton
def test_other_errors_are_errors():
    from tailcloud.kernels.launch import launch

    for error in (RuntimeError("CUDA error: an illegal memory access"), TypeError("not a tensor")):
        with pytest.raises(type(error)):
            launch(Failing(error), (1,))


@needs_triton
def test_a_backbone_whose_kernels_do_not_compile_says_so(monkeypatch):
    from tailcloud.kernels import convolution
    from tailcloud.kernels.residual import FusedResNet

    def fail(*arguments, **sizes):
        raise ValueError("any reason\nat all")

    for kernel in vars(convolution).values():
        if hasattr(kernel, "warmup"):
            monkeypatch.setattr(kernel, "warmup", fail)
    with pytest.raises(CannotFuse, match="at all"):
        FusedResNet(model_of(0.25).backbone, 4, 4).compile()


@needs_triton
def test_large_images_are_left_to_pytorch():
    assert kernels.obstacle(model_of(1.0), 128, 128) is None
    assert kernels.obstacle(model_of(1.0), 32, 129) == "they are made for images of at most 128 pixels a side"
