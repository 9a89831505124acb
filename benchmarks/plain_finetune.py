"""What a plain script gets from the same images: sixty lines of PyTorch, without tailcloud's training.

    python benchmarks/plain_finetune.py FOLDER --out RECORD.json [--size 128] [--epochs 12] [--frozen] [--loss ce]

EfficientNet-Lite0 from its ImageNet weights, AdamW with a smaller rate for the network, warm-up and cosine, random
crops, flips and colours, balanced softmax, eager steps, bfloat16 on a GPU. FOLDER has train/CLASS and test/CLASS,
or is an .npz file with x_train, y_train, x_test and y_test of the size that is trained. Only the network and its
weights are tailcloud's, so that both start from the same.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from tailcloud.backbones import create_backbone
from tailcloud.evaluation import Predictions, summarise
from tailcloud.files import json_text
from tailcloud.training.devices import commit, machine
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import resolve_weights

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEAD_EPOCHS, HEAD_BATCH = 40, 256  # on features


def read(source: Path, part: str, size: int) -> tuple[Tensor, Tensor, list[str]]:
    return read_arrays(source, part) if source.is_file() else read_images(source / part, size)


def read_arrays(file: Path, part: str) -> tuple[Tensor, Tensor, list[str]]:
    with np.load(file) as arrays:
        pixels = torch.from_numpy(arrays[f"x_{part}"]).permute(0, 3, 1, 2).to(DEVICE)
        labels = torch.from_numpy(arrays[f"y_{part}"]).to(DEVICE)
    return pixels, labels, [str(label) for label in range(int(labels.max()) + 1)]


def read_images(folder: Path, size: int) -> tuple[Tensor, Tensor, list[str]]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    files = [(path, label) for label, name in enumerate(names) for path in sorted((folder / name).iterdir())]

    def one(path: Path) -> NDArray[np.uint8]:
        image = Image.open(path).convert("RGB")
        scale = size / min(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
        left, top = (image.width - size) // 2, (image.height - size) // 2
        return np.asarray(image.crop((left, top, left + size, top + size)))

    with ThreadPoolExecutor() as pool:
        images = np.stack(list(pool.map(one, [path for path, _ in files])))
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).to(DEVICE)
    return pixels, torch.tensor([label for _, label in files], device=DEVICE), names


def augmented(images: Tensor) -> Tensor:
    count, size = len(images), images.shape[-1]
    uniform = torch.rand(7, count, device=DEVICE)
    area, ratio = 0.3 + 0.7 * uniform[0], torch.exp(0.58 * uniform[1] - 0.29)
    wide, tall = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    left, top = (2 * uniform[2] - 1) * (1 - wide), (2 * uniform[3] - 1) * (1 - tall)
    zero, flipped = torch.zeros_like(wide), torch.where(uniform[4] < 0.5, wide, -wide)
    boxes = torch.stack([torch.stack([flipped, zero, left], 1), torch.stack([zero, tall, top], 1)], 1)
    grid = F.affine_grid(boxes, [count, 3, size, size], align_corners=False)
    crops = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    bright, contrast = (0.7 + 0.6 * uniform[5:, :, None, None, None]).unbind()
    mean = crops.mean((1, 2, 3), keepdim=True)
    return ((crops - mean) * contrast + mean * bright).clamp(0, 255)


def outputs(network: nn.Module, images: Tensor) -> Tensor:
    normalised = ((images.float() - 127) / 128).contiguous(memory_format=torch.channels_last)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
        values: Tensor = network(normalised)
    return values.float()


def train(options: argparse.Namespace, images: Tensor, labels: Tensor, classes: int) -> nn.Module:
    backbone = create_backbone("efficientnet_lite0")
    load_pretrained(backbone, resolve_weights("efficientnet_lite0", "pretrained"), 3)
    head = nn.Linear(backbone.features, classes)
    model: nn.Module = nn.Sequential(backbone, head).to(DEVICE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    epochs, batch = (HEAD_EPOCHS, HEAD_BATCH) if options.frozen else (options.epochs, options.batch)
    if options.frozen:
        backbone.eval()
        with torch.inference_mode():
            features = torch.cat([outputs(backbone, some) for some in torch.split(images, 64)])
        images = features.clone()
    groups: list[dict[str, Any]] = [{"params": head.parameters(), "lr": options.lr}]
    groups += [] if options.frozen else [{"params": backbone.parameters(), "lr": options.lr * options.body}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.02)
    steps, rates = len(images) // batch, [group["lr"] for group in groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=epochs * steps, pct_start=0.1)
    counts = torch.bincount(labels, minlength=classes).float()
    shift = counts.log() if options.loss == "balanced" else torch.zeros_like(counts)
    for _ in range(epochs):
        model.train(not options.frozen)
        for rows in torch.split(torch.randperm(len(images), device=DEVICE)[: steps * batch], batch):
            logits = head(images[rows]) if options.frozen else outputs(model, augmented(images[rows]))
            optimizer.zero_grad()
            F.cross_entropy(logits + shift, labels[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    model.eval()
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in {"size": 128, "epochs": 12, "seed": 0, "batch": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, rate in {"lr": 1e-3, "body": 0.3}.items():  # of the head; of the network, as a share of it
        parser.add_argument(f"--{name}", type=float, default=rate)
    parser.add_argument("--loss", choices=["balanced", "ce"], default="balanced")
    parser.add_argument("--frozen", action="store_true", help="features once, then a linear head")
    parser.add_argument("--out", type=Path, required=True)
    options, started = parser.parse_args(), time.perf_counter()
    torch.manual_seed(options.seed)
    (images, labels, names), (test, truth, _) = (read(options.folder, part, options.size) for part in ("train", "test"))
    model = train(options, images, labels, len(names))
    with torch.inference_mode():
        logits = torch.cat([outputs(model, some) for some in torch.split(test, 64)])
    confidence, predicted = (each.cpu().numpy() for each in logits.softmax(1).max(1))
    target = truth.cpu().numpy()
    found = Predictions(target, predicted, confidence.astype(np.float64), predicted == target, 1)
    counts = np.bincount(labels.cpu().numpy(), minlength=len(names))
    settings = {key: value for key, value in vars(options).items() if key not in {"folder", "out"}}
    record = {"data": options.folder.name, **settings, **summarise(found, counts)}
    record |= {"seconds": time.perf_counter() - started, "machine": machine(DEVICE), "commit": commit()}
    options.out.write_text(json_text(record) + "\n")
    print(json.dumps({key: record[key] for key in ("top1", "balanced_accuracy", "many", "medium", "few", "seconds")}))


if __name__ == "__main__":
    main()
