"""How steps are run: the clouds of each epoch, and the update, against naive formulas in float64."""

import copy
import subprocess
import sys
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import Classify
from tailcloud.objectives.distillation import Distillation
from tailcloud.optimizers import OPTIMIZERS, SGD, SharpnessAware
from tailcloud.recipe import Stage
from tailcloud.sampling import ShuffledSampler, make_sampler
from tailcloud.side_stream import SideStream
from tailcloud.training.executors import cuda_graph
from tailcloud.training.executors.base import EpochState
from tailcloud.training.executors.cuda_graph import GraphedExecutor
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.executors.step import TrainingStep

CPU = torch.device("cpu")
RATES = [0.1] * 3
STAGE = Stage.model_validate({"epochs": 1, "loss": "gcl", "lr": 0.3, "momentum": 0.8, "weight_decay": 0.05})


class DrawingStep:
    """A step that trains nothing: its loss is what it drew."""

    def __init__(self):
        self.model = torch.nn.Linear(1, 1)
        self.optimizer = SGD(STAGE, dict(self.model.named_parameters()), CPU)

    def __call__(self, batch, generator):
        return self.update(batch, self.draw(batch, generator))

    def precompute(self, batch):
        return batch

    def draw(self, batch, generator):
        return torch.rand((), generator=generator)

    def update(self, batch, noise):
        return noise


def executor(seed=0, stage="stage1", step=None):
    split = Split(np.zeros((12, 4, 4, 1), np.uint8), np.arange(12) % 3)
    data = ResidentImages(split, CPU)
    loader = ResidentLoader(data, ShuffledSampler(12), Normalise([0.0], [1.0]), batch=4, seed=seed, stage=stage)
    return EagerExecutor(step or DrawingStep(), loader)


@pytest.mark.parametrize(
    ("images", "launches"),
    [(8, [(1, 4)] * 2), (16, [(4, 4)]), (35, [(4, 4)] * 2 + [(1, 3)]), (9, [(1, 4), (1, 5)])],
)
def test_a_graph_holds_several_steps_of_the_same_size(images, launches):
    data = ResidentImages(Split(np.zeros((images, 4, 4, 1), np.uint8), np.arange(images) % 3), CPU)
    loader = ResidentLoader(data, ShuffledSampler(images), Normalise([0.0], [1.0]), batch=4)
    assert GraphedExecutor(DrawingStep(), loader).launches(loader.steps) == launches


def test_every_epoch_seed_and_stage_has_clouds_of_its_own():
    places = [(seed, stage, epoch) for seed in (0, 1) for stage in ("stage1", "stage2") for epoch in (0, 1, 2)]
    drawn = [executor(seed, stage).epoch(epoch, RATES) for seed, stage, epoch in places]
    assert len({value for losses in drawn for value in losses.tolist()}) == 3 * len(places)


def test_the_clouds_of_an_epoch_do_not_depend_on_those_before():
    worn = executor()
    _, first, _, again = (worn.epoch(number, RATES) for number in (0, 2, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, executor().epoch(2, RATES))


@pytest.mark.parametrize("first", [0, 2])
def test_a_step_trains_with_its_own_learning_rate_also_in_the_rest_of_an_epoch(first):
    used, made = [], executor()
    made.train_step = lambda _: used.append(made.step.optimizer.groups[0].rate) or torch.zeros(())
    resume_from = EpochState(torch.zeros(first), made.generator.get_state()) if first else None
    made.epoch(0, [0.5, 0.25, 0.125], resume_from=resume_from)
    assert used == [0.5, 0.25, 0.125][first:]


class FakeEvent:
    """An event of a device that works only while somebody waits for it."""

    happened: ClassVar[list[str]] = []

    def __init__(self, *, blocking):
        assert blocking  # a thread that waits does not take a core

    def record(self):
        self.happened.append("launched")

    def synchronize(self):
        self.happened.append("waited")


def run_as_python(work, warm_up, generator):
    """In the place of a capture."""
    warm_up()
    return SimpleNamespace(replay=work)


@pytest.fixture
def graphs_on_cpu(monkeypatch):
    """Graphs that are run as Python. As on a GPU, the rates of the groups are tensors."""
    monkeypatch.setattr(cuda_graph, "capture", run_as_python)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr("tailcloud.optimizers.base.GRAPH_DEVICES", {"cpu"})


def test_only_a_few_graphs_are_ahead_of_the_device(monkeypatch):
    """A full queue would make every other run of the process wait at its next launch."""
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(FakeEvent, "happened", [])
    made = SimpleNamespace(graphs={(1, 4): SimpleNamespace(replay=lambda: None)})
    GraphedExecutor.replay(made, [(1, 4)] * 5)
    ahead = np.cumsum([1 if what == "launched" else -1 for what in FakeEvent.happened])
    assert ahead.max() == cuda_graph.AHEAD
    assert FakeEvent.happened.count("launched") == 5


@pytest.mark.usefixtures("graphs_on_cpu")
@pytest.mark.parametrize("radius", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_graph_takes_the_rate_of_each_step_from_the_device(name, radius):
    changes = {"layer_decay": 0.7, "decay_norms": False, "lr_factors": {"backbone.layer2": 0.3}}
    stage, pixels = STAGE.model_copy(update=changes), np.random.default_rng(0).integers(0, 256, (35, 8, 8, 1), np.uint8)
    loader = ResidentLoader(
        ResidentImages(Split(pixels, np.arange(35) % 3), CPU), ShuffledSampler(35), Normalise([0.0], [1.0]), batch=4
    )
    found = []
    for kind in (EagerExecutor, GraphedExecutor):
        model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0)
        optimizer = OPTIMIZERS[name](stage, dict(model.named_parameters()), CPU, model.layers())
        sam = SharpnessAware(optimizer.parameters, model.buffers(), radius) if radius else None
        made = kind(TrainingStep(model, Classify(GCLLoss([9, 3, 1])), optimizer, sam=sam), loader)
        for epoch in range(2):
            losses = made.epoch(epoch, [0.01 / (1 + epoch + step) for step in range(loader.steps)])
        found.append({"losses": losses, **model.state_dict()})
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.usefixtures("graphs_on_cpu")
@pytest.mark.parametrize("probability", [None, 0.5])
def test_a_graph_pastes_patches_of_another_sampler_as_eager_steps_do(probability):
    pixels, labels = np.random.default_rng(0).integers(0, 256, (35, 8, 8, 1), np.uint8), np.sort(np.arange(35) % 3)
    sampler = make_sampler("cb", labels, 3)
    options = {"cutmix": 1.0, "cutmix_sampler": sampler, "cutmix_probability": probability}
    data = ResidentImages(Split(pixels, labels), CPU)
    loader = ResidentLoader(data, ShuffledSampler(35), Normalise([0.0], [1.0]), batch=4, **options)
    found = []
    for kind in (EagerExecutor, GraphedExecutor):
        model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0)
        optimizer = SGD(STAGE, dict(model.named_parameters()), CPU)
        made = kind(TrainingStep(model, Classify(GCLLoss([9, 3, 1])), optimizer), loader)
        losses = [made.epoch(epoch, [0.01] * loader.steps) for epoch in range(2)]
        found.append({"losses": torch.cat(losses), **model.state_dict()})
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.usefixtures("graphs_on_cpu")
@pytest.mark.parametrize("radius", [0.0, 0.1])
def test_a_graph_asks_teachers_ahead_and_ends_where_eager_steps_do(radius):
    """Once for each step, also where SAM makes two passes."""
    pixels = np.random.default_rng(0).integers(0, 256, (35, 8, 8, 1), np.uint8)
    data, found, asked = ResidentImages(Split(pixels, np.arange(35) % 3), CPU), [], []
    teacher = build_classifier(Architecture("resnet8", "linear", 0.25, 1, 3), 1).eval()
    teacher.register_forward_hook(lambda *_: asked.append(1))
    for kind in (EagerExecutor, GraphedExecutor):
        model = build_classifier(Architecture("resnet8", "linear", 0.25, 1, 3), 0)
        optimizer = SGD(STAGE, dict(model.named_parameters()), CPU)
        sam = SharpnessAware(optimizer.parameters, model.buffers(), radius) if radius else None
        objective = Distillation(Classify(CrossEntropyLoss()), teacher)
        loader = ResidentLoader(data, ShuffledSampler(35), Normalise([0.0], [1.0]), batch=4)
        made = kind(TrainingStep(model, objective, optimizer, sam=sam), loader)
        made.prepare()
        asked.clear()
        losses = made.epoch(0, [0.01] * loader.steps)
        found.append({"losses": losses, **model.state_dict()})
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())
    assert len(asked) == loader.steps


@pytest.mark.usefixtures("graphs_on_cpu")
@pytest.mark.parametrize("changes", [False, True])
def test_an_epoch_is_drawn_ahead_and_anew_if_the_stage_was_shortened(changes):
    """A sampler that follows the stage must see the progress that an eager run sees."""
    pixels, labels = np.random.default_rng(0).integers(0, 256, (35, 8, 8, 1), np.uint8), np.sort(np.arange(35) % 3)
    data, drawn, found = ResidentImages(Split(pixels, labels), CPU), [], []

    class Noted(ResidentLoader):
        def draw_plan(self, number):
            drawn.append((number, self.progress(number)))
            return super().draw_plan(number)

    for kind in (EagerExecutor, GraphedExecutor):
        loader = Noted(data, make_sampler("pb", labels, 3), Normalise([0.0], [1.0]), batch=4, epochs=4)
        model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0)
        optimizer = SGD(STAGE, dict(model.named_parameters()), CPU)
        made = kind(TrainingStep(model, Classify(GCLLoss([9, 3, 1])), optimizer), loader)
        made.prepare()
        drawn.clear()
        losses = [made.epoch(0, [0.01] * loader.steps)]
        if changes:
            loader.follow(lambda epoch: epoch / 2)
        losses.append(made.epoch(1, [0.01] * loader.steps))
        found.append({"losses": torch.cat(losses), **model.state_dict()})
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())
    assert drawn == ([(0, 0.0), (1, 0.25), (1, 0.5)] if changes else [(0, 0.0), (1, 0.25), (2, 0.5)])


def test_the_next_batch_is_made_beside_a_step_and_after_the_step_before(monkeypatch):
    """So a step waits for its own batch alone, and a batch does not take the memory of one that is being used."""
    said = []

    class Beside(SideStream):
        def run(self, work):
            said.append("(")
            result = super().run(work)
            said.append(")")
            return result

        def wait(self):
            said.append("wait")

    class Noted(DrawingStep):
        def draw(self, batch, generator):
            said.append("batch")
            return super().draw(batch, generator)

        def update(self, batch, noise):
            said.append("step")
            return super().update(batch, noise)

    monkeypatch.setattr(cuda_graph, "SideStream", Beside)
    monkeypatch.setattr("tailcloud.optimizers.base.GRAPH_DEVICES", {"cpu"})
    data = ResidentImages(Split(np.zeros((12, 4, 4, 1), np.uint8), np.arange(12) % 3), CPU)
    made = GraphedExecutor(Noted(), ResidentLoader(data, ShuffledSampler(12), Normalise([0.0], [1.0]), batch=4))
    made.plan = made.loader.plan(0)
    made.several_steps(3, 4)
    first, middle = ["(", ")", "(", "batch", ")"], ["wait", "(", "batch", ")", "step"]
    assert said == [*first, *middle, *middle, "wait", "(", ")", "step", "wait"]
    assert made.first_row.tolist() == [12]
    assert made.step_number.tolist() == [3]
    assert len(set(made.step_losses.tolist())) == 3


def test_graphs_of_the_same_batch_size_share_a_warm_up(monkeypatch):
    class Counting(DrawingStep):
        def draw(self, batch, generator):
            drawn.append(len(batch.target))
            return super().draw(batch, generator)

    def captured(work, warm_up, generator):
        warm_up()

    drawn = []
    monkeypatch.setattr(cuda_graph, "capture", captured)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr("tailcloud.optimizers.base.GRAPH_DEVICES", {"cpu"})
    data = ResidentImages(Split(np.zeros((23, 4, 4, 1), np.uint8), np.arange(23) % 3), CPU)
    made = GraphedExecutor(Counting(), ResidentLoader(data, ShuffledSampler(23), Normalise([0.0], [1.0]), batch=4))
    made.prepare()
    assert list(made.graphs) == [(4, 4), (1, 4), (1, 3)]
    assert drawn == [4, 3]


def test_a_warm_up_leaves_no_gradient_for_the_next_size_of_batch():
    class Careful(TrainingStep):
        def loss(self, batch, generator):
            assert all(parameter.grad is None for parameter in self.model.parameters())
            sizes.append(len(batch.target))
            return super().loss(batch, generator)

    sizes = []
    data = ResidentImages(Split(np.zeros((11, 8, 8, 1), np.uint8), np.arange(11) % 3), CPU)
    loader = ResidentLoader(data, ShuffledSampler(11), Normalise([0.0], [1.0]), batch=4)
    twin = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0)
    before = {name: value.clone() for name, value in twin.state_dict().items()}
    step = Careful(twin, Classify(GCLLoss([9, 3, 1])), SGD(STAGE, dict(twin.named_parameters()), CPU))
    EagerExecutor(step, loader).warm_up()
    assert sizes == [4, 3]
    assert all(parameter.grad is None for parameter in twin.parameters())
    assert all(torch.equal(before[name], value) for name, value in twin.state_dict().items())


@pytest.mark.slow
def test_training_does_not_import_the_compiler():
    """It takes seconds, which a short run would mostly consist of."""
    code = """
import sys
from tailcloud.cli import app
app(["train", "--set", "stage1.epochs=1", "--set", "stage2.epochs=1", "--out", sys.argv[1]], standalone_mode=False)
assert not {"torch._dynamo", "sympy"} & set(sys.modules)
"""
    with TemporaryDirectory() as home:
        subprocess.run([sys.executable, "-c", code, f"{home}/run"], check=True, capture_output=True)


def test_a_step_is_the_gradient_of_the_objective_and_one_update():
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0).double()
    twin = copy.deepcopy(model)
    objective = Classify(GCLLoss([9, 3, 1]))
    batch = Batch(torch.randn(6, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2]))
    step = TrainingStep(model, objective, SGD(STAGE, dict(model.named_parameters()), CPU))
    losses = [step(batch, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    velocity = {name: torch.zeros_like(p) for name, p in twin.named_parameters()}
    for seed, loss in zip((1, 2), losses, strict=True):
        expected = objective(twin, batch, objective.draw(batch, torch.Generator().manual_seed(seed)))
        torch.testing.assert_close(loss, expected.detach())
        assert not loss.requires_grad
        gradients = torch.autograd.grad(expected, list(twin.parameters()))
        with torch.no_grad():
            for (name, weight), gradient in zip(twin.named_parameters(), gradients, strict=True):
                velocity[name] = 0.8 * velocity[name] + gradient + 0.05 * weight
                weight.sub_(0.3 * velocity[name])
    for (name, weight), twin_weight in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(weight, twin_weight, msg=name)
