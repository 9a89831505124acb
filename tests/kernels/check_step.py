"""Whole steps by the kernels (batch, backbone, head and loss) against plain ones: an epoch of each stage."""

import copy

import numpy as np
import pytest
import torch

from helpers.kernel_device import DEVICE, INTERPRETED, needs_somewhere
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.evaluation import predict_on_device
from tailcloud.kernels import FusedNetwork
from tailcloud.kernels.residual import FusedResNet
from tailcloud.losses import GCLLoss
from tailcloud.objectives import Classify
from tailcloud.optimizers import SGD, SharpnessAware
from tailcloud.recipe import Stage
from tailcloud.sampling import make_sampler
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.executors.step import TrainingStep
from tailcloud.training.stages.trainable import set_modes, set_trainable

pytestmark = needs_somewhere

IMAGES, SIZE, CLASSES = 5, (5, 4), 3
BATCH = 3  # and a last one of 2 images
ROUNDING = 1e-4 if INTERPRETED else 2e-3  # on a GPU, head and loss multiply in TF32
STAGES = {
    "all": {"mixup": 1.0},
    "head": {"train": "head", "sampler": "cb", "batch_norm": "frozen"},
    "sam": {"mixup": 1.0, "sam": 0.05},
    "head, moving": {"train": "head", "sampler": "cb"},
}


def executors(stage, dtype=torch.float32):
    """The same stage plain in float32, and in kernels that keep maps in ``dtype``."""
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 3, CLASSES), 0)
    model.to(DEVICE, memory_format=torch.channels_last)
    plain = executor(model, stage, None)
    twin = copy.deepcopy(model)
    network = FusedNetwork(twin, *SIZE)
    network.backbone = FusedResNet(twin.backbone, *SIZE, dtype)
    return plain, executor(twin, stage, network)


def executor(model, stage, network):
    random = np.random.default_rng(0)
    labels = np.sort(np.arange(IMAGES) % CLASSES)
    data = ResidentImages(Split(random.integers(0, 256, (IMAGES, *SIZE, 3), dtype=np.uint8), labels), DEVICE)
    sampler = make_sampler(stage.sampler.name, labels, CLASSES)
    normalise = Normalise([0.5] * 3, [0.25] * 3, DEVICE)
    kind = network.loader if network else ResidentLoader
    loader = kind(data, sampler, normalise, batch=BATCH, augment=Augment(crop_padding=1, flip=True), mixup=stage.mixup)
    loader.dtype = network.backbone.dtype if network else None
    loss = GCLLoss([30, 5, 1], margin=0.1, focal=1.0).to(DEVICE)
    optimizer = SGD(stage, set_trainable(model, stage), DEVICE)
    sam = SharpnessAware(optimizer.parameters, model.buffers(), stage.sam) if stage.sam else None
    half = network is not None and network.backbone.dtype == torch.bfloat16
    objective = network.objective(Classify(loss)) if network else Classify(loss)
    set_modes(model, stage)
    return EagerExecutor(TrainingStep(model, objective, optimizer, half, network, sam), loader)


@pytest.mark.parametrize("name", STAGES)
def test_an_epoch_is_the_plain_one(name):
    stage = Stage.model_validate({"epochs": 1, "loss": "gcl", **STAGES[name]})
    plain, fused = executors(stage)
    before = copy.deepcopy(plain.step.model.state_dict())
    losses = [one.epoch(0, [0.05] * one.loader.steps) for one in (plain, fused)]
    torch.testing.assert_close(losses[1], losses[0], rtol=ROUNDING, atol=1e-5)
    for key, value in plain.step.model.state_dict().items():
        found = fused.step.model.state_dict()[key]
        close = {"rtol": 10 * ROUNDING, "atol": ROUNDING}
        torch.testing.assert_close(found, value, **close, msg=lambda text, key=key: f"{key}: {text}")
        moving = "running" in key or "tracked" in key
        moves = "head" in key or (stage.batch_norm == "moving" if moving else stage.train == "all")
        assert torch.equal(before[key], value) != moves, key


def test_an_epoch_in_bfloat16_is_close_to_the_plain_one():
    """As a run has it: maps in bfloat16, head and loss in float32 within autocast."""
    plain, fused = executors(Stage(epochs=1, loss="gcl", mixup=1.0), torch.bfloat16)
    rates = [0.05] * plain.loader.steps
    torch.testing.assert_close(fused.epoch(0, rates), plain.epoch(0, rates), rtol=0.05, atol=0.0)


def test_evaluation_says_what_the_plain_model_says():
    plain, fused = executors(Stage(epochs=1, loss="gcl"))
    plain.step.model.eval()
    fused.step.model.eval()
    data, normalise = plain.loader.data, plain.loader.transform
    found, expected = (
        predict_on_device(one, data.in_order(normalise), 30.0) for one in (fused.step.network, plain.step.model)
    )
    for column, value in zip(found, expected, strict=True):
        torch.testing.assert_close(column, value, rtol=1e-4, atol=1e-5)
