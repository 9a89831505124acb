"""Do all executors train the same model, and what do they cost? One command, one table, one record.

    python benchmarks/executors.py                                          on the CPU, digits-lt
    python benchmarks/executors.py --device cuda --root data                on CIFAR-10-LT
    python benchmarks/executors.py --recipe cifar10-lt/gcl --random 512     a recipe on random images of 32×32 pixels

Every executor of the device starts from the state that the eager one starts from, and ends with these differences:

    one step       in float32: rounding
    twenty steps   in float64, an odd last batch among them: nothing but rounding, or a formula is wrong
    whole epoch    as the recipe has it, on CUDA in bfloat16 too, by PyTorch's kernels and by ours: a graph must give
                   the same bits; compiled steps must not be further away than the same epoch in float64 is

A difference is the largest one of any number, then as a part of the largest number of its tensor. Seconds are of a
step once an executor is ready, and of making it ready with nothing compiled before. On the CPU there is one thread, and
a step's are processor seconds. An executor that fails is a row of the table; the others go on.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement import RESULTS, seconds, write_record
from torch import Tensor

from tailcloud.data import Dataset, open_dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.longtail import exponential_counts
from tailcloud.errors import TailcloudWarning
from tailcloud.losses import GCLLoss, Loss
from tailcloud.recipe import Recipe, Stage, load_recipe
from tailcloud.training.devices import pick_device, set_deterministic
from tailcloud.training.executors.compiled import cause_of
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts, make_parts
from tailcloud.training.stages.trainable import set_modes

OTHERS = {"cpu": ("compiled",), "cuda": ("graphed", "compiled")}  # the one that can break most comes last
STEPS = 20
YARDSTICK = "(float64)"  # the eager executor in float64: what rounding alone comes to
BUDGET = 10.0  # seconds for the fastest epoch
CLASSES, PIXELS, RATIO = 10, 32, 100  # of random images

State = dict[str, dict[str, Tensor]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(OTHERS))
    parser.add_argument("--recipe", help="by default digits-lt/gcl, with --root cifar10-lt/gcl")
    parser.add_argument("--root", help="the folder that data files are in")
    parser.add_argument("--random", type=int, help="random images instead, so many in the largest class")
    parser.add_argument("--only", choices=["speed", "differences"], help="measure a half")
    parser.add_argument("--write", type=Path, help="the JSON file; by default under benchmarks/results/")
    return parser.parse_args()


def recipe_of(options: argparse.Namespace) -> Recipe:
    name = options.recipe or ("cifar10-lt/gcl" if options.root else "digits-lt/gcl")
    return load_recipe(name, [{"root": options.root}] if options.root else [])


def data_of(options: argparse.Namespace, recipe: Recipe) -> Dataset:
    if not options.random:
        return open_dataset(recipe.data.spec, recipe.root)
    counts = exponential_counts(options.random, CLASSES, RATIO)
    labels = np.repeat(np.arange(CLASSES), counts)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), PIXELS, PIXELS, 3)).astype(np.uint8)
    split = Split(images, labels)
    return Dataset("random", split, split, [str(number) for number in range(CLASSES)], [0.5] * 3, [0.25] * 3)


@dataclass(frozen=True)
class Check:
    """What is compared: number of images, batch size, precision and kernels."""

    name: str
    stage: str
    images: int
    batch: int
    precision: str
    kernels: str = "plain"

    def begin(
        self, executor: str, recipe: Recipe, dataset: Dataset, device: torch.device
    ) -> tuple[Session, StageParts]:
        """The stage in its first state, the executor ready."""
        chosen = np.linspace(0, len(dataset.train) - 1, self.images).astype(np.int64)  # the tail is there too
        train = Split(dataset.train.images[chosen], dataset.train.labels[chosen])
        kind = DoubleSession if self.precision == "float64" else Session
        session = kind(self.applied(recipe, executor), replace(dataset, train=train), device)
        parts = make_parts(session, self.stage)
        set_modes(session.model, parts.stage)
        parts.executor.prepare()
        return session, parts

    def applied(self, recipe: Recipe, executor: str) -> Recipe:
        """The recipe with this executor, batch, precision and kernels."""
        stage = recipe.stages[self.stage].model_copy(update={"batch": self.batch})
        precision = "bfloat16" if self.precision == "bfloat16" else "float32"
        engine = recipe.engine.model_copy(
            update={"executor": executor, "precision": precision, "kernels": self.kernels}
        )
        return recipe.model_copy(update={self.stage: stage, "engine": engine})

    def executors(self, device: torch.device) -> list[str]:
        """What is compared with eager; what is compiled cannot use our kernels."""
        return [name for name in OTHERS[device.type] if name != "compiled" or self.kernels == "plain"]


class DoubleSession(Session):
    """A run in float64, as a reference."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        super().__init__(recipe, dataset, device)
        self.model.double()
        self.transform = DoubleNormalise(self.transform)

    def loss(self, stage: Stage) -> Loss:
        loss = super().loss(stage)
        if isinstance(loss, GCLLoss):
            loss.exact = loss.exact.to(self.device)  # a graph cannot fetch it from the host
        return loss


class DoubleNormalise(Normalise):
    """Images in float64."""

    def __init__(self, plain: Normalise) -> None:
        super().__init__(plain.mean, plain.std)
        self.plain = plain

    def __call__(self, images: Tensor) -> Tensor:
        return self.plain(images).double()


def checks(recipe: Recipe, dataset: Dataset, device: torch.device) -> Iterator[Check]:
    images = len(dataset.train)
    for name, stage in recipe.stages.items():
        small = min(stage.batch, images // STEPS)
        yield Check("one step", name, min(stage.batch, images), stage.batch, "float32")
        yield Check("twenty steps", name, (STEPS - 1) * small + max(2, small // 2), small, "float64")
        yield Check("whole epoch", name, images, stage.batch, "float32")
        for kernels in ("plain", "fused") if device.type == "cuda" else ():
            yield Check("whole epoch", name, images, stage.batch, "bfloat16", kernels)


def trained(session: Session, parts: StageParts) -> State:
    """Everything that an epoch changes, by kind and name, on the host."""
    losses = parts.executor.epoch(0, [parts.stage.lr] * parts.loader.steps)
    state: dict[str, Mapping[str, Tensor]] = {
        "loss": {"loss": losses},
        "parameters": dict(session.model.named_parameters()),
        "momentum": parts.optimizer.buffers["momentum"],
        "statistics": dict(session.model.named_buffers()),
    }
    return {
        kind: {name: value.detach().cpu().double() for name, value in group.items()} for kind, group in state.items()
    }


@dataclass(frozen=True)
class Difference:
    """How far a group of tensors is from those of the eager executor."""

    absolute: float
    relative: float


def difference(eager: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Difference:
    apart = {name: float((other[name] - value).abs().max()) for name, value in eager.items()}
    size = {name: max(float(value.abs().max()), 1e-30) for name, value in eager.items()}
    return Difference(max(apart.values()), max(apart[name] / size[name] for name in apart))


def attempt(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What the work gives, or why it failed."""
    try:
        return work(*arguments)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {cause_of(error)}"}


def trained_eagerly(check: Check, *world: Any) -> State:
    return trained(*check.begin("eager", *world))


def compared(check: Check, executor: str, eager: State, *world: Any) -> dict[str, Any]:
    other = trained(*check.begin(executor, *world))
    apart = {kind: difference(eager[kind], other[kind]) for kind in eager}
    same = all(torch.equal(value, other[kind][name]) for kind in eager for name, value in eager[kind].items())
    return {"same_bits": same, **{kind: asdict(one) for kind, one in apart.items()}}


def differences(recipe: Recipe, dataset: Dataset, device: torch.device) -> Iterator[dict[str, Any]]:
    """A row for every check and executor, as soon as it is there."""
    world = (recipe, dataset, device)
    print(
        f"\n{'check':<14}{'stage':<8}{'numbers':<10}{'kernels':<9}{'executor':<10}{'same bits':<11}"
        f"{'loss':<18}{'parameters':<18}{'momentum':<18}statistics"
    )
    for check in checks(*world):
        eager = attempt(trained_eagerly, check, *world)
        for executor in check.executors(device):
            found = eager if "failed" in eager else attempt(compared, check, executor, eager, *world)
            yield shown({**asdict(check), "executor": executor, **found})
        if check.name == "whole epoch" and "failed" not in eager:
            exact = replace(check, precision="float64", kernels="plain")
            found = attempt(compared, exact, "eager", eager, *world)
            yield shown({**asdict(check), "executor": YARDSTICK, **found})


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Print the row."""
    start = f"{row['name']:<14}{row['stage']:<8}{row['precision']:<10}{row['kernels']:<9}{row['executor']:<10}"
    if "failed" in row:
        print(f"{start}failed: {row['failed']}", flush=True)
        return row
    kinds = ("loss", "parameters", "momentum", "statistics")
    figures = [f"{row[kind]['absolute']:.1e} / {row[kind]['relative']:.1e}" for kind in kinds]
    print(f"{start}{row['same_bits']!s:<11}{'  '.join(f'{figure:<16}' for figure in figures)}", flush=True)
    return row


def speed(recipe: Recipe, dataset: Dataset, device: torch.device) -> list[dict[str, Any]]:
    """Seconds of a step, and of its set-up, in every stage with every executor."""
    rows: list[dict[str, Any]] = []
    print(f"\n{'stage':<8}{'executor':<10}{'ms / step':>10}{'to make ready: s':>18}{'processor s':>13}")
    for name, stage in recipe.stages.items():
        precision = "bfloat16" if device.type == "cuda" else "float32"
        check = Check("speed", name, len(dataset.train), stage.batch, precision, "auto")
        for executor in ("eager", *OTHERS[device.type]):
            found = attempt(timed, check, executor, recipe, dataset, device)
            rows.append({"stage": name, "executor": executor, "precision": precision, **found})
            show_speed(rows[-1])
    return rows


def timed(check: Check, executor: str, *world: Any) -> dict[str, Any]:
    device: torch.device = world[-1]
    began, processor = time.perf_counter(), processor_seconds()
    session, parts = check.begin(executor, *world)
    ready = {"ready": time.perf_counter() - began, "ready_processor": processor_seconds() - processor}
    epoch = seconds(lambda: parts.executor.epoch(0, [1e-6] * parts.loader.steps), device, budget=BUDGET)
    return {"kernels": session.environment.get("kernels"), "step": epoch / parts.loader.steps, **ready}


def processor_seconds() -> float:
    """Of this process and of the compilers that it called."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def show_speed(row: Mapping[str, Any]) -> None:
    start = f"{row['stage']:<8}{row['executor']:<10}"
    if "failed" in row:
        print(f"{start}failed: {row['failed']}", flush=True)
        return
    print(f"{start}{1e3 * row['step']:>10.2f}{row['ready']:>18.1f}{row['ready_processor']:>13.1f}", flush=True)


def break_even(rows: Sequence[Mapping[str, Any]], work: float) -> float | None:
    """FLOPs from which on compiling the first stage pays, in processor seconds; None if it makes no step faster."""
    first = {row["executor"]: row for row in rows if row["stage"] == "stage1" and "failed" not in row}
    if not {"eager", "compiled"} <= first.keys() or first["compiled"]["step"] >= first["eager"]["step"]:
        return None
    start_up = first["compiled"]["ready_processor"] - first["eager"]["ready_processor"]
    return float(work * start_up / (first["eager"]["step"] - first["compiled"]["step"]))


def measure(options: argparse.Namespace, record: dict[str, Any], *world: Any) -> None:
    """Fill the record piece by piece: what was measured before an interruption is in it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # nothing was compiled before
        if options.only != "differences":
            record["speed"] = speed(*world)
            record["pays_from_flops"] = break_even(record["speed"], record["step_flops"])
        if options.only != "speed":
            record["differences"] = rows = []
            for row in differences(*world):
                rows.append(row)


def main() -> None:
    options = arguments()
    device, recipe = pick_device(options.device), recipe_of(options)
    dataset = data_of(options, recipe)
    set_deterministic(device)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", TailcloudWarning)  # a few images do not have all classes
    work = Session(recipe, dataset, device).step_flops
    about = {"recipe": recipe.data.spec, "method": recipe.method, "data": dataset.spec}
    record: dict[str, Any] = {**about, "step_flops": work}
    target = options.write or RESULTS / f"executors-{dataset.spec.replace(':', '-')}-{device.type}.json"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was measured until then is written
    try:
        measure(options, record, recipe, dataset, device)
    finally:
        write_record(target, record, device)
    if record.get("pays_from_flops"):
        print(f"\ncompiling pays from {record['pays_from_flops']:.1e} FLOPs on; a step has {work:.1e}")
    print(f"record: {target}")


if __name__ == "__main__":
    main()
