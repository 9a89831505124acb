"""The plain loop, in the style of published long-tail code: what benchmarks/speed.py compares with.

    python benchmarks/plain_loop.py cifar10-lt/gcl --root data --device cuda --epochs 4 --write plain.json

What it shares with tailcloud: the model, its first weights, loss, optimiser settings, learning rates, batch size,
sampling and mixup of the recipe, and an evaluation of the whole test part after every epoch. What it does as such code
does:

- images are PIL images that loader workers vary one by one: zero padding and a random crop, a random flip, a float
  tensor, normalisation (what torchvision's transforms do, with the same calls to Pillow and PyTorch);
- ``DataLoader`` with as many workers as cores, kept between epochs, pinned memory for a GPU, ``WeightedRandomSampler``
  where the recipe samples by class;
- eager float32 PyTorch in its default memory format, ``torch.optim.SGD`` with its defaults, and cuDNN left to choose
  algorithms by trial;
- the loss is read every ten steps, predictions at every step of the evaluation.

Nothing is slowed down on purpose. In its favour, the model is ours with all its improvements, and neither logs nor
checkpoints are written.
"""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement import write_record
from PIL import Image, ImageOps
from torch import Tensor
from torch.optim import SGD
from torch.utils.data import DataLoader, WeightedRandomSampler
from torch.utils.data import Dataset as TorchDataset

from tailcloud.classifier import build_classifier
from tailcloud.data import Dataset, Split, open_dataset
from tailcloud.losses import LOSSES, Loss
from tailcloud.recipe import Recipe, Stage, load_recipe
from tailcloud.sampling import sample_weights
from tailcloud.training.model import architecture
from tailcloud.training.schedule import learning_rate
from tailcloud.training.stages.trainable import set_modes, set_trainable

TEST_BATCH = 256
LOOK_EVERY = 10  # steps between two looks at the loss

Batches = DataLoader[tuple[Tensor, int]]


def cropped(image: Image.Image, padding: int, row: int, column: int) -> Image.Image:
    """Padded with black, and the old size cut out again with its corner at (row, column)."""
    width, height = image.size
    return ImageOps.expand(image, border=padding, fill=0).crop((column, row, column + width, row + height))


def mirrored(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def to_tensor(image: Image.Image) -> Tensor:
    """[channels, height, width] in 0 … 1."""
    pixels = np.array(image, np.uint8)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float().div_(255)


@dataclass(frozen=True)
class View:
    """A training image (``padding``, ``flip``) or a test image as the network sees it."""

    mean: Tensor
    std: Tensor
    padding: int = 0
    flip: bool = False

    def __call__(self, image: Image.Image) -> Tensor:
        if self.padding:
            row, column = torch.randint(0, 2 * self.padding + 1, (2,)).tolist()
            image = cropped(image, self.padding, row, column)
        if self.flip and torch.rand(1).item() < 0.5:
            image = mirrored(image)
        return self.normalised(to_tensor(image))

    def normalised(self, image: Tensor) -> Tensor:
        return image.sub_(self.mean).div_(self.std)


class Images(TorchDataset[tuple[Tensor, int]]):
    """One image at a time."""

    def __init__(self, split: Split, view: View) -> None:
        self.images, self.labels, self.view = split.pixels, split.labels, view

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        pixels = self.images[position]
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        return self.view(image), int(self.labels[position])


class PlainLoop:
    """A run of a recipe by the plain loop."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device, workers: int) -> None:
        self.recipe, self.dataset, self.device, self.workers = recipe, dataset, device, workers
        self.model = build_classifier(architecture(recipe, dataset), recipe.seed).to(device)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, False

    def epochs(self, stage: Stage) -> Iterator[float]:
        """Train a stage; the loss of each epoch once it is over and evaluated."""
        loss = LOSSES[stage.loss.name](self.dataset.profile.counts.tolist(), **stage.loss.options).to(self.device)
        parameters = set_trainable(self.model, stage)
        optimizer = SGD(parameters.values(), lr=stage.lr, momentum=stage.momentum, weight_decay=stage.weight_decay)
        train, test = self.training_batches(stage), self.test_batches()
        for epoch in range(stage.epochs):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(stage, epoch)
            value = self.train_epoch(stage, train, loss, optimizer)
            self.accuracy(test)
            yield value

    def train_epoch(self, stage: Stage, batches: Batches, loss: Loss, optimizer: SGD) -> float:
        set_modes(self.model, stage)
        seen: list[float] = []
        for step, (images, target) in enumerate(self.moved(batches)):
            value = self.loss(images, target, loss, stage.mixup)
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if step % LOOK_EVERY == 0:
                seen.append(value.item())
        return sum(seen) / len(seen)

    def loss(self, images: Tensor, target: Tensor, loss: Loss, mixup: float) -> Tensor:
        """The loss of a batch, mixed with a permutation of itself where the stage has mixup."""
        if not mixup:
            value: Tensor = loss(self.model(images), target)
            return value
        lam = float(np.random.beta(mixup, mixup))
        partners = torch.randperm(len(target), device=target.device)
        output = self.model(lam * images + (1 - lam) * images[partners])
        mixed: Tensor = lam * loss(output, target) + (1 - lam) * loss(output, target[partners])
        return mixed

    @torch.no_grad()
    def accuracy(self, batches: Batches) -> float:
        self.model.eval()
        right = [(self.model(images).argmax(dim=1) == target).cpu().numpy() for images, target in self.moved(batches)]
        return float(np.concatenate(right).mean())

    def moved(self, batches: Batches) -> Iterator[tuple[Tensor, Tensor]]:
        for images, target in batches:
            yield images.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)

    def training_batches(self, stage: Stage) -> Batches:
        augment, labels = self.recipe.augment, self.dataset.train.labels
        images = Images(self.dataset.train, self.view(augment.crop_padding, augment.flip))
        if stage.sampler.name == "ib":
            return self.loader(images, stage.batch, shuffle=True)
        weights = sample_weights(stage.sampler.name, self.dataset.profile.counts, **stage.sampler.options)
        sampler = WeightedRandomSampler(weights[labels].tolist(), len(labels))
        return self.loader(images, stage.batch, sampler=sampler)

    def test_batches(self) -> Batches:
        return self.loader(Images(self.dataset.test, self.view()), TEST_BATCH)

    def view(self, padding: int = 0, flip: bool = False) -> View:
        mean, std = (torch.tensor(list(values)).view(-1, 1, 1) for values in (self.dataset.mean, self.dataset.std))
        return View(mean, std, padding, flip)

    def loader(self, images: Images, batch: int, **options: Any) -> Batches:
        return DataLoader(
            images,
            batch,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.device.type == "cuda",
            **options,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--root", default="data")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, required=True, help="of each stage, at most")
    parser.add_argument("--write", type=Path, required=True, help="the JSON file with the seconds of every epoch")
    options = parser.parse_args()
    device = torch.device(options.device)
    recipe = load_recipe(options.recipe, [{"root": options.root}])
    loop = PlainLoop(recipe, open_dataset(recipe.data.spec, recipe.root), device, options.workers)
    seconds = {name: timed(loop, stage, options.epochs) for name, stage in recipe.stages.items() if stage.epochs}
    write_record(options.write, {"epoch_seconds": seconds}, device)


def timed(loop: PlainLoop, stage: Stage, epochs: int) -> list[float]:
    """The seconds of each epoch; the first one includes the start of the workers."""
    found, started = [], time.perf_counter()
    for _ in loop.epochs(stage.model_copy(update={"epochs": min(stage.epochs, epochs)})):
        found.append(time.perf_counter() - started)
        started = time.perf_counter()
    return found


if __name__ == "__main__":
    main()
