"""A step of a stage on tensors without data: nothing is computed, but its fused kernels are compiled."""

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch

from tailcloud.data import Dataset
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.kernels import FusedNetwork
from tailcloud.recipe import Stage
from tailcloud.sampling import make_sampler
from tailcloud.training.stages.factory import make_loss, make_objective

META = torch.device("meta")


def trial_step(network: FusedNetwork, stage: Stage, augment: Augment, dataset: Dataset) -> None:
    """Compile the kernels of a stage for batches, head and loss; those of the backbone are compiled by itself.

    It raises nothing: what fails here fails again in the first step of the stage, where somebody expects it. Of
    PyTorch's operations on tensors without data, many import its compiler, which takes a second; none is called here
    for batches that are cropped and flipped alone.
    """
    from tailcloud.kernels.head_loss import FusedClassify

    with suppress(Exception):
        labels, counts = np.arange(stage.batch) % dataset.classes, dataset.profile.counts.tolist()
        images = ResidentImages(Split(np.zeros((stage.batch, *dataset.shape), np.uint8), labels), META)
        loader = network.loader(
            images,
            make_sampler("ib", labels, dataset.classes),
            Normalise(dataset.mean, dataset.std, META),
            batch=stage.batch,
            augment=augment,
            shape=dataset.shape[:2],
            mixup=stage.mixup,
            cutmix=stage.cutmix,
        )
        plan, rows = loader.plan(0), torch.empty(stage.batch, dtype=torch.int64, device=META)
        batch = loader.assemble(plan, rows, plan.lambdas[0])
        objective = network.objective(make_objective(stage, make_loss(stage, counts), counts))
        if isinstance(objective, FusedClassify):
            on_host = replace(batch, target=torch.zeros(stage.batch, dtype=torch.int64))
            first, second = objective.draw(on_host, torch.Generator())
            noise = first if first is None else first.to(META), second if second is None else second.to(META)
            features = torch.empty(stage.batch, network.model.backbone.features, device=META)
            objective.to(META).of_features(features, deepcopy(network.head).to(META), batch, noise)
