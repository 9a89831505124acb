"""A trial step compiles what the steps of a stage launch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="there is no triton on this machine")

from triton import knobs
from triton.runtime import driver

from helpers.fake_gpu import FakeGpu
from helpers.runs import small_recipe
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Dataset, Split
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.kernels import FusedNetwork, batch_assembly, head_loss, image_operations
from tailcloud.kernels.compile_together import jobs_of
from tailcloud.sampling import make_sampler
from tailcloud.training.stages.factory import make_loss, make_objective
from tailcloud.training.stages.trial_step import trial_step

pytestmark = pytest.mark.skipif(knobs.runtime.interpret, reason="kernels are interpreted, not compiled")
CPU, CLASSES, IMAGES = torch.device("cpu"), 10, 48


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(driver, "_active", FakeGpu())


def dataset():
    part = Split(np.zeros((IMAGES, 32, 32, 3), np.uint8), np.arange(IMAGES) % CLASSES)
    return Dataset("synthetic", part, part, [f"class{number}" for number in range(CLASSES)], [0.5] * 3, [0.25] * 3)


def network_of(head):
    return FusedNetwork(build_classifier(Architecture("resnet8", head, 1.0, 3, CLASSES), 0), 32, 32)


def step(network, stage, augment, data, monkeypatch):
    """A step as a graph has it, of which nothing is computed."""

    def compile_only(kernel, grid, *arguments, **sizes):
        kernel.warmup(*arguments, grid=grid, **sizes)

    for module in (batch_assembly, image_operations, head_loss):
        monkeypatch.setattr(module, "launch", compile_only)
    monkeypatch.setattr(network, "features", lambda images: torch.zeros(len(images), 64))
    sampler, transform = make_sampler("cb", data.train.labels, CLASSES), Normalise(data.mean, data.std)
    options = {"batch": stage.batch, "augment": augment, "mixup": stage.mixup, "stage": "stage1", "seed": 5}
    loader = network.loader(ResidentImages(data.train, CPU), sampler, transform, **options)
    plan, rows = loader.plan(0), torch.arange(stage.batch) + torch.zeros(1, dtype=torch.int64)
    batch = loader.assemble(plan, rows, plan.lambdas.index_select(0, torch.zeros(1, dtype=torch.int64)).squeeze(0))
    counts = data.profile.counts.tolist()
    objective = network.objective(make_objective(stage, make_loss(stage, counts), counts))
    objective(network, batch, objective.draw(batch, torch.Generator()))


@pytest.mark.parametrize(
    ("head", "method", "mixup"), [("cosine", "gcl", 1.0), ("cosine", "gcl", 0.0), ("linear", "ce", 0.5)]
)
def test_what_is_compiled_is_what_a_step_launches(monkeypatch, head, method, mixup):
    stage = small_recipe({"stage1": {"mixup": mixup, "batch": 20}}, name=f"digits-lt/{method}").stage1
    network, data, augment = network_of(head), dataset(), Augment(crop_padding=4, flip=True)
    compiled = jobs_of(lambda: trial_step(network, stage, augment, data))
    assert len(compiled) == 2  # a batch, and head with loss
    assert set(compiled) == set(jobs_of(lambda: step(network, stage, augment, data, monkeypatch)))


def test_the_kernels_of_policies_are_compiled_too(monkeypatch):
    stage = small_recipe({"stage1": {"mixup": 0.0, "batch": 20}}).stage1
    network, data = network_of("cosine"), dataset()
    augment = Augment(crop_padding=4, flip=True, auto_augment="cifar", cutout=16)
    compiled = jobs_of(lambda: trial_step(network, stage, augment, data))
    kernels = {json.loads(job)[1] for job in compiled}
    assert kernels == {"assemble", "operate", "normalise", "finish"}
    assert set(compiled) == set(jobs_of(lambda: step(network, stage, augment, data, monkeypatch)))


def test_it_does_not_import_the_compiler_of_pytorch():
    """That would take a second of every run; a new process, because other tests import it."""
    script = """
import sys
import test_trial_step as tests
from tailcloud.data.augment import Augment
from triton.runtime import driver
driver._active = tests.FakeGpu()
network, stage = tests.network_of("cosine"), tests.small_recipe({"stage1": {"mixup": 1.0, "batch": 20}}).stage1
jobs = tests.jobs_of(lambda: tests.trial_step(network, stage, Augment(crop_padding=4, flip=True), tests.dataset()))
assert len(jobs) == 2, jobs
print(sorted({"sympy", "torch._dynamo"} & sys.modules.keys()))
"""
    folders = [str(Path(__file__).parent), *sys.path]
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        check=False,
    )
    assert ran.stdout.strip() == "[]", ran.stderr


def test_it_raises_nothing(monkeypatch):
    network = network_of("cosine")
    monkeypatch.setattr(network, "loader", None)
    trial_step(network, small_recipe().stage1, Augment(), dataset())
