"""Steps on micro-batches, by one process or several: the gradient of the whole batch, in float64, however it is cut."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.ranks import in_ranks
from helpers.runs import run, small_recipe
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch
from tailcloud.errors import UsageError
from tailcloud.losses import CrossEntropyLoss, FocalLoss, GCLLoss, LDAMLoss
from tailcloud.objectives import Classify
from tailcloud.optimizers import OPTIMIZERS, SharpnessAware
from tailcloud.recipe import Stage, load_recipe
from tailcloud.training.distributed.sync_batch_norm import SyncBatchNorm, synchronise
from tailcloud.training.distributed.world import SINGLE_PROCESS
from tailcloud.training.engine import RunEngine
from tailcloud.training.executors.micro_batch import micro_batch_step
from tailcloud.training.executors.step import TrainingStep

COUNTS, ROWS = [40, 9, 4, 1], 11
LOSSES = {
    "gcl": GCLLoss(COUNTS),
    "weighted ldam": LDAMLoss(COUNTS, weights="effective", beta=0.9),
    "weighted ce": CrossEntropyLoss(COUNTS, weights="inverse"),
    "weighted focal": FocalLoss(COUNTS, weights="inverse"),
}
STAGE = Stage.model_validate({"epochs": 1, "loss": "gcl", "lr": 0.3})
CPU = torch.device("cpu")


class Tiny(nn.Module):
    """A classifier of a convolution, perhaps batch norm, and a layer that no gradient reaches."""

    def __init__(self, norm):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3) if norm else nn.Identity(), nn.Tanh())
        self.out, self.idle = nn.Linear(12, len(COUNTS)), nn.Linear(1, 1)

    def forward(self, images):
        return self.out(self.body(images).flatten(1)).tanh()


def tiny(norm):
    torch.manual_seed(0)
    return Tiny(norm).double()


def whole_batch(rows=ROWS):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(rows, 1, 4, 4, dtype=torch.float64, generator=generator)
    target = torch.randint(len(COUNTS), (rows,), generator=generator)
    partners = torch.randperm(rows, generator=generator)
    return Batch(images, target, target[partners], torch.tensor(0.4, dtype=torch.float64))


def piece_of(batch, start, end):
    own = batch.images[start:end], batch.target[start:end], batch.other[start:end]
    return Batch(*own, batch.lam, place=start, whole=batch.target, other_whole=batch.other_whole)


def sam_of(model, radius):
    return SharpnessAware(dict(model.named_parameters()), model.buffers(), radius) if radius else None


def step_in(world, norm, accumulate, rows, loss="gcl", radius=0.0):
    """Gradients, running statistics and loss after a step on the own pieces; weights afterwards."""
    model, batch = tiny(norm), whole_batch(rows)
    if norm:
        synchronise(model, world)
    if not world.rank0:  # all start from the weights of rank 0
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)
    optimizer = OPTIMIZERS["sgd"](STAGE, dict(model.named_parameters()), CPU)
    whole = TrainingStep(model, Classify(LOSSES[loss]), optimizer, sam=sam_of(model, radius))
    step = micro_batch_step(whole, world)
    pieces = tuple(piece_of(batch, *bounds) for bounds in world.share(accumulate).bounds(0, rows))
    value = world.sum(step(pieces, torch.Generator().manual_seed(2)).reshape(1))
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**found, **model.state_dict(prefix="after."), "loss": value.squeeze(0)}


def whole_step(norm, rows, loss="gcl", radius=0.0):
    model, objective = tiny(norm), Classify(LOSSES[loss])
    optimizer = OPTIMIZERS["sgd"](STAGE, dict(model.named_parameters()), CPU)
    step = TrainingStep(model, objective, optimizer, sam=sam_of(model, radius))
    value = step(whole_batch(rows), torch.Generator().manual_seed(2))
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**found, **model.state_dict(prefix="after."), "loss": value}


def check_same(made, expected):
    assert made.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(made[name], value, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("accumulate", [2, 3, 20])
def test_a_batch_in_micro_batches_has_its_own_gradient(accumulate, loss):
    check_same(step_in(SINGLE_PROCESS, False, accumulate, ROWS, loss), whole_step(False, ROWS, loss))


@pytest.mark.parametrize("loss", ["weighted ldam", "weighted ce"])
def test_partners_of_another_sampler_have_the_class_weights_of_their_own_batch(loss):
    batch, model = whole_batch(), tiny(norm=False)
    batch = replace(batch, other=torch.full_like(batch.other, 3))  # heavier than any batch of the first sampler
    objective, none = Classify(LOSSES[loss]), (None, None)
    expected = torch.autograd.grad(objective(model, batch, none), model.out.weight)[0]
    whole, found = replace(batch, other_whole=batch.other), torch.zeros_like(expected)
    for start, end in ((0, 4), (4, ROWS)):
        value = objective(model, piece_of(whole, start, end), none)
        found += (end - start) / ROWS * torch.autograd.grad(value, model.out.weight)[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("accumulate", [2, 3])
def test_sam_moves_to_the_worst_point_of_the_whole_batch(accumulate):
    expected = whole_step(False, ROWS, radius=0.5)
    check_same(step_in(SINGLE_PROCESS, False, accumulate, ROWS, radius=0.5), expected)
    assert not torch.allclose(expected["out.weight"], whole_step(False, ROWS)["out.weight"])


@pytest.mark.parametrize("loss", [LOSSES["weighted ldam"], LOSSES["weighted ce"]])
def test_class_weights_of_pieces_add_up_to_those_of_the_batch(loss):
    generator = torch.Generator().manual_seed(3)
    target = torch.randint(len(COUNTS), (ROWS,), generator=generator)
    output = torch.rand(ROWS, len(COUNTS), dtype=torch.float64, generator=generator)
    plain = type(loss)(COUNTS)  # each image alone
    weights = [float(loss.weights.now[label]) for label in target.tolist()]
    each = [float(plain(output[at : at + 1], target[at : at + 1])) for at in range(ROWS)]
    expected = sum(weight * value for weight, value in zip(weights, each, strict=True)) / sum(weights)
    found = 0.0
    for own in (slice(0, 2), slice(2, 2), slice(2, ROWS)):
        mean = loss(output[own], target[own])
        found += len(target[own]) / ROWS * float(loss.in_whole(mean, target[own], target))
    assert found == pytest.approx(expected, rel=1e-6)


CASES = [(False, 1, 11, "gcl"), (False, 2, 11, "gcl"), (False, 1, 3, "gcl"), (True, 1, 11, "gcl"), (True, 1, 3, "gcl")]
CASES += [(False, 2, 11, "gcl", 0.5), (True, 1, 11, "gcl", 0.5)]
CASES += [(True, 1, 11, "weighted ldam"), (False, 1, 3, "weighted ce")]  # 3: one of 4 has no image


def steps_in(world):
    return [step_in(world, *case) for case in CASES]


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_add_up_to_the_whole_batch_and_so_does_their_batch_norm(ranks):
    for made in in_ranks(ranks, steps_in):
        for (norm, _, *others), one in zip(CASES, made, strict=True):
            check_same(one, whole_step(norm, *others))


def test_batch_norm_alone_is_left_as_it_is_and_an_unknown_one_is_refused():
    model = tiny(norm=True)
    synchronise(model, SINGLE_PROCESS)
    assert type(model.body[1]) is nn.BatchNorm2d
    names = list(model.state_dict())
    synchronise(model, replace(SINGLE_PROCESS, size=2))
    assert isinstance(model.body[1], SyncBatchNorm)
    assert list(model.state_dict()) == names

    class Special(nn.BatchNorm2d):
        pass

    with pytest.raises(UsageError, match="this model has Special"):
        synchronise(nn.Sequential(Special(3)), replace(SINGLE_PROCESS, size=2))


def test_accumulating_gives_the_same_run_up_to_rounding(tmp_path):
    settings = {"stage1": {"batch_norm": "frozen"}}
    whole = run(tmp_path / "whole", small_recipe(settings))
    pieces = run(tmp_path / "pieces", small_recipe(settings, {"engine": {"accumulate": 3}}))
    assert pieces.machine["accumulate"] == 3
    assert pieces.top1.last == pytest.approx(whole.top1.last, abs=1.0)
    for made, expected in zip(pieces.stages, whole.stages, strict=True):
        assert made.per_class == pytest.approx(expected.per_class, abs=10)


WEIGHED = {"stage1": {"loss": {"weights": "inverse"}}}


@pytest.mark.parametrize(
    ("method", "settings"),
    [(method, {}) for method in ("lade", "hybrid-sc", "oltr", "bcl", "proco")]
    + [(method, WEIGHED) for method in ("bbn", "hybrid-psc")],
)
def test_what_is_no_mean_over_images_is_refused_in_micro_batches(method, settings, tmp_path):
    recipe = load_recipe(f"digits-lt/{method}", [settings, {"engine": {"accumulate": 2}}])
    with pytest.raises(UsageError, match=r"is not a mean over images.*engine.accumulate = 1"):
        run(tmp_path / "run", recipe)


@pytest.mark.parametrize(
    "method", ["bbn", "hybrid-psc", "gcl-feature-noise", "gcl-official", "mislas", "ldam-drw", "cb-ce"]
)
def test_methods_that_are_means_over_images_train_in_micro_batches(method, tmp_path):
    table = {"engine": {"accumulate": 2}, "stage1": {"epochs": 1, "batch": 200}, "model": {"width": 0.25}}
    recipe = load_recipe(f"digits-lt/{method}", [table])
    recipe = recipe.model_copy(update={"stage2": None})
    assert run(tmp_path / "run", recipe).machine["accumulate"] == 2


def test_whole_batches_stay_whole():
    assert SINGLE_PROCESS.share() == WHOLE_BATCH
    assert SINGLE_PROCESS.share(2) != WHOLE_BATCH
    assert RunEngine.uses_micro_batches.fget(type("Whole", (), {"share": WHOLE_BATCH})()) is False
