"""Compile the kernels as a run with ResNet-32 on CIFAR would, for a GPU that this machine need not have.

That finds what the interpreter does not: types that do not fit, and tiles that take more shared memory than a GPU has.
Without ``--all``, of each kernel only the variant that asks for most; ``--arch`` takes several.

    python tests/kernels/compiling.py --all --arch 80 86 90
"""

import argparse
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from tailcloud.backbones import create_backbone
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.kernels import FusedNetwork, batch_assembly, head_loss, image_operations, residual
from tailcloud.kernels.branches import FusedBranches
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import Classify
from tailcloud.sampling import make_sampler

IMAGES, SIZE, CLASSES = 8, 32, 100
CPU = torch.device("cpu")
DEMANDING = (
    "EARLY",
    "MOVING",
    "MIXED",
    "NOISY",
    "CO",
    "C",
    "SHORTCUT",
    "SKIP",
    "S",
)  # what makes a variant ask for more


class Target:
    """As much of a driver as compiling asks for."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> int:
        return self.arch  # kernels are remembered by device

    def get_current_stream(self, _device: int) -> int:
        return 0


class Launches:
    """Every variant of every kernel that was to be launched."""

    def __init__(self) -> None:
        self.variants: dict[tuple[object, ...], tuple[str, dict[str, int], Callable[[], object]]] = {}

    def note(self, kernel, grid, *arguments, **sizes) -> None:
        work = partial(kernel.warmup, *arguments, grid=grid, **sizes)
        name = f"gluon {kernel.fn.__name__}" if kernel.is_gluon() else kernel.fn.__name__
        name += " open" if sizes.get("OPEN") else ""
        self.variants.setdefault((name, *sorted(sizes.items())), (name, sizes, work))

    def chosen(self, everything: bool):
        """All variants, or the most demanding one of each kernel."""
        variants = sorted(self.variants.values(), key=lambda one: [one[1].get(size, 0) for size in DEMANDING])
        return variants if everything else list({name: (name, *rest) for name, *rest in variants}.values())


def all_launches(arch: int) -> Launches:
    """A step of each kind and an evaluation, of which nothing is computed."""
    launches = Launches()
    head_loss.launch = batch_assembly.launch = image_operations.launch = launches.note
    for head, loss in (("cosine", GCLLoss([9] * CLASSES, margin=0.1, focal=1.0)), ("linear", CrossEntropyLoss())):
        model = build_classifier(Architecture("resnet32", head, 1.0, 3, CLASSES), 0)
        network = FusedNetwork(model.to(memory_format=torch.channels_last), SIZE, SIZE)
        network.backbone.launch = launches.note
        objective = network.objective(Classify(loss))
        for mixup, policy in ((0.0, None), (0.0, "cifar"), (1.0, None)):
            batch = next(loader(network, mixup, policy).epoch(0))
            objective(network, batch, objective.draw(batch, torch.Generator())).backward()
            model.zero_grad()
        model.eval()
        with torch.no_grad():
            network(batch.images)
    chains = [(residual.FusedResNet(model.backbone, SIZE, SIZE), batch.images)]
    for name in ("resnet32-two-branch", "resnet32-3-experts"):
        backbone = create_backbone(name).to(memory_format=torch.channels_last)
        chains.append((FusedBranches(backbone, SIZE, SIZE), batch.images))
    for network, images in chains:
        for chain in [network] if isinstance(network, residual.FusedResNet) else [network.trunk, *network.ends]:
            chain.launch = launches.note
            if arch >= 90:  # a CPU cannot tell
                chain.early = {"EARLY": True, "launch_pdl": True}
        network.backbone.train()
        network(images).sum().backward()
        network.backbone.eval()
        with torch.no_grad():
            network(images)
    return launches


def loader(network: FusedNetwork, mixup: float, policy: str | None):
    labels = np.arange(IMAGES) % 2
    data = ResidentImages(Split(np.zeros((IMAGES, SIZE, SIZE, 3), np.uint8), labels), CPU)
    options = {
        "batch": IMAGES,
        "augment": Augment(crop_padding=4, flip=True, auto_augment=policy, cutout=16 if policy else 0),
        "mixup": mixup,
    }
    return network.loader(data, make_sampler("ib", labels, 2), Normalise([0.5] * 3, [0.2] * 3), **options)


def compiled(arch: int, everything: bool) -> list[dict[str, object]]:
    """The shared memory of each variant, in bytes."""
    driver.set_active(Target(arch))
    chosen = all_launches(arch).chosen(everything)
    with ThreadPoolExecutor() as pool:
        kernels = pool.map(lambda one: one[2](), chosen)
    return [
        {"arch": arch, "kernel": name, "shared": kernel.metadata.shared, "sizes": sizes}
        for (name, sizes, _), kernel in zip(chosen, kernels, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", type=int, nargs="+", default=[90])
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for arch in arguments.arch:
        for variant in compiled(arch, arguments.all):
            print(json.dumps(variant))


if __name__ == "__main__":
    main()
