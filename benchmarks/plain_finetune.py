"""What a plain script gets from the same images: sixty lines of PyTorch, without tailcloud's training.

    python benchmarks/plain_finetune.py FOLDER --out RECORD.json [--frozen] [--size 128] [--epochs 12] [--loss balanced]

EfficientNet-Lite0 from its ImageNet weights, AdamW with a tenth of the rate for the network, one cycle of warm-up and
cosine, random crops, flips and colours, balanced softmax, eager steps, bfloat16 on a GPU. FOLDER has train/CLASS and
test/CLASS. Only the network and its weights are tailcloud's, so that both have the same start.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def read(folder: Path, size: int) -> tuple[Tensor, Tensor, list[str]]:
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
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.tensor([label for _, label in files]), names


def augmented(images: Tensor) -> Tensor:
    """Random resized crops, flips, brightness and contrast, on the device."""
    count, size, like = len(images), images.shape[-1], {"device": images.device}
    area, ratio = torch.empty(count, **like).uniform_(0.3, 1), torch.empty(count, **like).uniform_(-0.29, 0.29).exp()
    wide, tall = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    flip = torch.randint(0, 2, (count,), **like) * 2 - 1
    zero, place = torch.zeros(count, **like), torch.rand(2, count, **like) * 2 - 1
    rows = [torch.stack([wide * flip, zero, place[0] * (1 - wide)], 1), torch.stack([zero, tall, place[1] * (1 - tall)], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), [count, 3, size, size], align_corners=False)
    images = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    bright, contrast = (torch.empty(count, 1, 1, 1, **like).uniform_(0.7, 1.3) for _ in range(2))
    mean = images.mean((1, 2, 3), keepdim=True)
    return ((images - mean) * contrast + mean * bright).clamp(0, 255)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in {"size": 128, "epochs": 12, "seed": 0, "batch": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--loss", choices=["balanced", "ce"], default="balanced")
    parser.add_argument("--frozen", action="store_true", help="features once, then a linear head")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    started = time.perf_counter()
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    (images, labels, names), (test, truth, _) = (read(options.folder / part, options.size) for part in ("train", "test"))
    images, labels, test = images.to(device), labels.to(device), test.to(device)
    network = create_backbone("efficientnet_lite0")
    load_pretrained(network, resolve_weights("efficientnet_lite0", "pretrained"), 3)
    head = nn.Linear(network.features, len(names))
    model = nn.Sequential(network, head).to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    counts = torch.bincount(labels, minlength=len(names)).float()
    shift = counts.log() if options.loss == "balanced" else torch.zeros_like(counts)

    def outputs(net: nn.Module, batch: Tensor) -> Tensor:
        normalised = ((batch.float() - 127) / 128).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            values: Tensor = net(normalised)
        return values.float()

    if options.frozen:
        network.eval()
        with torch.inference_mode():
            features = torch.cat([outputs(network, batch) for batch in images.split(64)]).clone()
        inputs, trained, batch_size, epochs = features, head, 256, 40
    else:
        inputs, trained, batch_size, epochs = images, model, options.batch, options.epochs
    groups = [{"params": head.parameters(), "lr": 1e-3}]
    groups += [] if options.frozen else [{"params": network.parameters(), "lr": 1e-4}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.02)
    steps = epochs * (len(inputs) // batch_size)
    rates = [float(group["lr"]) for group in groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        trained.train()
        for rows in torch.randperm(len(inputs), device=device).split(batch_size)[: len(inputs) // batch_size]:
            logits = head(inputs[rows]) if options.frozen else outputs(model, augmented(inputs[rows]))
            optimizer.zero_grad()
            F.cross_entropy(logits + shift, labels[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.inference_mode():
        logits = torch.cat([outputs(model, batch) for batch in test.split(64)]).cpu()
    confidence, predicted = logits.softmax(1).max(1)
    found = Predictions(truth.numpy(), predicted.numpy(), confidence.double().numpy(), (predicted == truth).numpy(), 1)
    scores = summarise(found, counts.cpu().numpy())
    seconds = time.perf_counter() - started
    settings = {key: value for key, value in vars(options).items() if key not in {"folder", "out"}}
    record = {"data": options.folder.name, **settings, **scores, "seconds": seconds}
    record |= {"machine": machine(device), "commit": commit()}
    options.out.write_text(json_text(record) + "\n")
    print(json.dumps({key: record[key] for key in ("top1", "balanced_accuracy", "many", "medium", "few", "seconds")}))


if __name__ == "__main__":
    main()
