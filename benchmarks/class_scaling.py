"""Does anything grow faster than linearly? Loss, samplers and metrics with 10 to 100,000 classes and 10 million labels.

    python benchmarks/class_scaling.py                   on the CPU, about two minutes
    python benchmarks/class_scaling.py --device cuda     only what computes on a device: the losses and predictions

Every piece is measured at growing sizes: seconds of one thread, the most memory that it has at once, and the growth
from a size to the next as an exponent (1 is linear). What grows faster is said at the end, and all is written as JSON.

Arrays that outgrow a processor's caches, or that the system must find fresh memory for, take longer for each of their
numbers whatever is done with them. Two yardsticks show how much: five passes over the logits, each into memory of its
own as in the loss, and reading as many numbers as there are labels in random order.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement import RESULTS, Work, host_peak, seconds, settle_memory, tensor_peak, write_record
from numpy.typing import NDArray

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Dataset, Split, hold_out
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.evaluation import Predictions, confusion, predict, summarise
from tailcloud.losses import CrossEntropyLoss, GCLLoss, Loss
from tailcloud.profile import Profile, cloud_sizes
from tailcloud.sampling import WEIGHTS, ShuffledSampler, make_sampler
from tailcloud.training.devices import commit, machine

CLASSES = (10, 100, 1_000, 8_142, 100_000)
LABELS = (100_000, 1_000_000, 10_000_000)
USUAL_CLASSES = 8_142  # iNaturalist 2018, where labels grow
BATCH, RATIO = 64, 100
FASTER_THAN_LINEAR = {"seconds": 1.1, "bytes": 1.02}  # exponents; time is noisy, memory is not
PASSES, READS = "(five passes over the logits)", "(random reads)"  # the yardsticks
TOO_SHORT = 1e-3  # seconds in which what is called costs less than calling it
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Piece:
    """Something that is measured: ``prepare(classes, labels, device)`` gives the work, on the device or on the host."""

    name: str
    prepare: Callable[[int, int, torch.device], Work]
    on_device: bool = False
    along: Sequence[str] = ("classes", "labels")


@dataclass(frozen=True)
class Curve:
    """What was measured of a piece at growing sizes."""

    piece: str
    yardstick: str
    along: str
    sizes: Sequence[int]
    seconds: Sequence[float]
    bytes: Sequence[int]

    def growth(self, what: str) -> list[float]:
        """log-log slopes between neighbouring sizes."""
        values: Sequence[float] = getattr(self, what)
        return [
            log(max(after, 1e-9) / max(before, 1e-9)) / log(larger / smaller)
            for before, after, smaller, larger in zip(values, values[1:], self.sizes, self.sizes[1:], strict=False)
        ]

    def faster_than_linear(self, yardstick: "Curve") -> Iterator[str]:
        """A sentence for every step that is steeper than linear and long enough to tell."""
        for what, bound in FASTER_THAN_LINEAR.items():
            for place, (slope, usual) in enumerate(zip(self.growth(what), yardstick.growth(what), strict=True)):
                long_enough = what == "bytes" or self.seconds[place + 1] > TOO_SHORT
                if slope > bound and long_enough:
                    span = f"{self.sizes[place]:,} to {self.sizes[place + 1]:,} {self.along}"
                    yield f"{what} of {self.piece}, {span}: exponent {slope:.2f} {self.yardstick[:-1]}: {usual:.2f})"


def counts_of(classes: int, labels: int) -> NDArray[np.int64]:
    """Exponentially falling counts with a sum of ``labels``; every class has an image."""
    shares = RATIO ** -np.linspace(0, 1, classes)
    counts: NDArray[np.int64] = np.maximum((labels * shares / shares.sum()).astype(np.int64), 1)
    counts[0] += labels - counts.sum()
    return counts


@lru_cache(maxsize=len(CLASSES))
def labels_of(classes: int, labels: int) -> NDArray[np.int64]:
    """Such labels in random order."""
    everything: NDArray[np.int64] = np.repeat(np.arange(classes), counts_of(classes, labels))
    np.random.default_rng(0).shuffle(everything)
    return everything


def loss_step(loss: Loss, classes: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Work:
    """Forward and backward of a batch, the noise drawn before."""
    loss = loss.to(device)
    cosine = (torch.rand(BATCH, classes, device=device) * 2 - 1).to(dtype).requires_grad_()
    target, epsilon = torch.randint(classes, (BATCH,), device=device), loss.draw(BATCH, device)
    return lambda: torch.autograd.grad(loss(cosine, target, epsilon=epsilon), cosine)


def gcl(dtype: torch.dtype = torch.float32, **options: Any) -> Callable[[int, int, torch.device], Work]:
    def prepare(classes: int, labels: int, device: torch.device) -> Work:
        return loss_step(GCLLoss(counts_of(classes, labels).tolist(), **options), classes, device, dtype)

    return prepare


def cross_entropy(classes: int, _: int, device: torch.device) -> Work:
    return loss_step(CrossEntropyLoss(), classes, device)


def predictions(classes: int, _: int, device: torch.device) -> Work:
    """Images through a small network, and of each only what the figures need."""
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, classes), 0).to(device)
    batch = Batch(torch.rand(256, 1, 1, 1, device=device), torch.randint(classes, (256,), device=device))
    return lambda: predict(model, [batch] * 4, 30.0)


def judged(classes: int, labels: int) -> Predictions:
    """Half of the predictions are right, the others any class."""
    random, target = np.random.default_rng(1), labels_of(classes, labels)
    right = random.random(labels) < 0.5
    predicted = np.where(right, target, random.integers(0, classes, labels))
    return Predictions(target, predicted, random.random(labels), right, 5)


def figures(classes: int, labels: int, _: torch.device) -> Work:
    said, counts = judged(classes, labels), counts_of(classes, labels)
    return lambda: summarise(said, counts)


def confusions(classes: int, labels: int, _: torch.device) -> Work:
    said = judged(classes, labels)
    return lambda: confusion(said, classes)


def profile(classes: int, labels: int, _: torch.device) -> Work:
    """Counts, groups, remarks and cloud sizes."""
    names, drawn = [""] * classes, labels_of(classes, labels)

    def work() -> object:
        found = Profile(np.bincount(drawn, minlength=classes), names)
        return found.groups, found.remarks(), cloud_sizes(found.counts)

    return work


def sampler_setup(classes: int, labels: int, _: torch.device) -> Work:
    drawn = labels_of(classes, labels)
    return lambda: make_sampler("cb", drawn, classes)


def sampler_draw(name: str) -> Callable[[int, int, torch.device], Work]:
    def prepare(classes: int, labels: int, _: torch.device) -> Work:
        sampler, generator = make_sampler(name, labels_of(classes, labels), classes), np.random.default_rng(0)
        return lambda: sampler.draw(generator)

    return prepare


def tiny_split(classes: int, labels: int) -> Split:
    """Images of one pixel."""
    return Split(np.zeros((labels, 1, 1, 1), np.uint8), labels_of(classes, labels))


def epoch_plan(classes: int, labels: int, device: torch.device) -> Work:
    """Order, crops, flips, mixing partners and λ of an epoch."""
    data = ResidentImages(tiny_split(classes, labels), device)
    loader = ResidentLoader(
        data,
        ShuffledSampler(labels),
        Normalise([0.0], [1.0]),
        batch=BATCH,
        augment=Augment(crop_padding=4, flip=True),
        mixup=1.0,
    )
    return lambda: loader.plan(0)


def validation_part(classes: int, labels: int, _: torch.device) -> Work:
    split = tiny_split(classes, labels)
    dataset = Dataset("scale", split, split, [""] * classes, [0.0], [1.0])
    return lambda: hold_out(dataset, 0.1)


def five_passes(classes: int, _: int, device: torch.device) -> Work:
    logits = torch.rand(BATCH, classes, device=device)
    return lambda: logits.abs().neg().abs().neg().abs()


def random_reads(_: int, labels: int, __: torch.device) -> Work:
    numbers, order = np.arange(labels), np.random.default_rng(0).permutation(labels)
    return lambda: numbers[order]


PIECES = [
    Piece(PASSES, five_passes, on_device=True, along=["classes"]),
    Piece("GCL loss", gcl(), on_device=True, along=["classes"]),
    Piece("GCL loss, margin and focal", gcl(margin=0.1, focal=1.0), on_device=True, along=["classes"]),
    Piece("GCL loss, bfloat16 cosines", gcl(torch.bfloat16), on_device=True, along=["classes"]),
    Piece("cross-entropy loss", cross_entropy, on_device=True, along=["classes"]),
    Piece("predictions of 1,024 images", predictions, on_device=True, along=["classes"]),
    Piece(READS, random_reads),
    Piece("class counts and profile", profile),
    Piece("set-up of a weighted sampler", sampler_setup),
    *(Piece(f"epoch drawn by {name}", sampler_draw(name)) for name in WEIGHTS),
    Piece("plan of an epoch with mixup", epoch_plan, along=["labels"]),
    Piece("figures of all images", figures),
    Piece("confusions of all images", confusions),
    Piece("validation part held out", validation_part),
]


def measure(piece: Piece, classes: int, labels: int, device: torch.device) -> tuple[float, int]:
    """Seconds and bytes. Host work is few long steps: its memory can be watched while its time is taken."""
    work = piece.prepare(classes, labels, device)
    if piece.on_device:
        return seconds(work, device, least=3, budget=0.5), tensor_peak(work, device)
    spent: list[float] = []
    peak = host_peak(lambda: spent.append(seconds(work, CPU, budget=0.5)))
    return spent[0], peak


def curve(piece: Piece, along: str, device: torch.device) -> Curve:
    sizes = CLASSES if along == "classes" else LABELS
    points = [(size, LABELS[-1]) if along == "classes" else (USUAL_CLASSES, size) for size in sizes]
    taken = [measure(piece, classes, labels, device) for classes, labels in points]
    yardstick = PASSES if piece.on_device else READS
    return Curve(piece.name, yardstick, along, sizes, [time for time, _ in taken], [size for _, size in taken])


def show(found: Curve) -> None:
    times = " ".join(f"{1e3 * value:10,.2f}" for value in found.seconds)
    sizes = " ".join(f"{value / 1e6:10,.2f}" for value in found.bytes)
    steepest = {what: max(found.growth(what)) for what in FASTER_THAN_LINEAR}
    print(f"{found.piece:<29} ms {times}   {steepest['seconds']:5.2f}")
    print(f"{'':<29} MB {sizes}   {steepest['bytes']:5.2f}", flush=True)


def measure_all(along: str, device: torch.device) -> list[Curve]:
    """Every piece that grows with that, each shown when it is done."""
    sizes = CLASSES if along == "classes" else LABELS
    fixed = f"{LABELS[-1]:,} labels" if along == "classes" else f"{USUAL_CLASSES:,} classes"
    print(f"\n{f'{along}, with {fixed}':<32} {' '.join(f'{size:10,}' for size in sizes)}   steepest growth")
    pieces = [piece for piece in PIECES if along in piece.along and (piece.on_device or device.type == "cpu")]
    curves = []
    for piece in pieces:
        curves.append(curve(piece, along, device))
        show(curves[-1])
    return curves


def steep_steps(curves: Sequence[Curve]) -> list[str]:
    """Where something grows faster than linearly, in sentences."""
    found = {(one.piece, one.along): one for one in curves}
    pieces = [one for one in curves if one.piece != one.yardstick]
    return [words for one in pieces for words in one.faster_than_linear(found[one.yardstick, one.along])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--write", type=Path, help="the JSON file; by default under benchmarks/results/")
    options = parser.parse_args()
    device, started = torch.device(options.device), commit()
    torch.set_num_threads(1)
    settle_memory()
    about = machine(device)
    print(f"{about['gpu'] or about['processor']}, one thread, torch {about['torch']}, commit {started}")
    curves = measure_all("classes", device) + (measure_all("labels", device) if device.type == "cpu" else [])
    steep = steep_steps(curves)
    print("\nFaster than linear:", *(steep or ["nothing"]), sep="\n  ")
    target = options.write or RESULTS / f"scale-{device.type}.json"
    measured = [asdict(one) | {"growth": {what: one.growth(what) for what in FASTER_THAN_LINEAR}} for one in curves]
    fixed = {"batch": BATCH, "labels": LABELS[-1], "classes": USUAL_CLASSES}
    write_record(target, {**fixed, "curves": measured, "faster_than_linear": steep}, device)
    print(f"record: {target}")


if __name__ == "__main__":
    main()
