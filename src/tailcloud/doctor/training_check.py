"""Digits, trained for a few epochs in every executor: where bits are promised bits are compared, else losses.

Every trial writes run folders, which are compared with the folder of the trial that it must agree with.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tailcloud.doctor.check import Check, Deadline, failure
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import duration, number
from tailcloud.launch.execute import execute, run_jobs
from tailcloud.launch.run_plan import PlannedRun, TrainRequest, plan_runs
from tailcloud.launch.train import process_state_restored
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import SilentObserver

RECIPE = "digits-lt/gcl"
SETTINGS = (
    *("stage1.epochs=2", "stage2.epochs=1", "engine.threads=1", "engine.checkpoint_seconds=0"),
    "logging.examples=false",
)
PLAIN = (*SETTINGS, "engine.kernels=plain")
FUSED = (*SETTINGS, "engine.kernels=fused")
EAGER, GRAPHED = "engine.executor=eager", "engine.executor=graphed"
BFLOAT16_LOSS = 0.05  # relative difference of the first epoch's loss that rounding to bfloat16 may make
FLOAT32_LOSS = 0.01  # the same for float32 on another device, whose sums and TF32 products round differently
REPORT = "please report this page"

Train = Callable[["Trial", str, Path], list[Path]]


class StopAfterEpoch(SilentObserver):
    """Breaks a run off after its first epoch, as a crash would."""

    def epoch_done(self, line: dict[str, Any]) -> None:  # noqa: ARG002
        """End here."""
        raise BrokenOff


class BrokenOff(Exception):
    """A run was broken off on purpose."""


@dataclass(frozen=True)
class Trial:
    """A way to train digits, and what its result must agree with.

    Args:
        name: what is tried.
        settings: of the recipe.
        train: trains in a folder, and returns the run folders; by default one run.
        like: the name of the trial with the same result; None: it is only trained.
        tolerance: the allowed relative difference of the first epoch's loss; 0: the same bits.
        way_out: what a user does if it fails.
        device: where it trains; None: on the device that is checked.
        recipe: the recipe.
    """

    name: str
    settings: tuple[str, ...]
    way_out: str
    like: str | None = None
    tolerance: float = 0.0
    train: Train | None = None
    device: str | None = None
    recipe: str = RECIPE


def train_once(trial: Trial, device: str, folder: Path) -> list[Path]:
    """One run."""
    _execute(_planned(trial, device, folder), device)
    return [folder]


def train_resumed(trial: Trial, device: str, folder: Path) -> list[Path]:
    """One run that is broken off after its first epoch, and resumed."""
    try:
        execute(_planned(trial, device, folder), device, StopAfterEpoch(), report=False)
    except BrokenOff:
        _execute(_planned(trial, device, folder, resume=True), device)
        return [folder]
    raise TailcloudError("the run ended before it was broken off")


def train_fleet(trial: Trial, device: str, folder: Path) -> list[Path]:
    """Two runs at the same time, with the same seed."""
    folders = [folder / "first", folder / "second"]
    runs = [_planned(trial, device, each) for each in folders]
    jobs = [partial(execute, run, device, report=False) for run in runs]
    for outcome in run_jobs(jobs, [SilentObserver() for _ in jobs], device):
        if isinstance(outcome, TailcloudError):
            raise outcome
    return folders


def _planned(trial: Trial, device: str, folder: Path, *, resume: bool = False) -> PlannedRun:
    request = TrainRequest(recipes=[trial.recipe], settings=trial.settings, out=folder, device=device, resume=resume)
    (planned,) = plan_runs(request)
    return planned


def _execute(run: PlannedRun, device: str) -> None:
    execute(run, device, SilentObserver(), report=False)


def trials(device: torch.device) -> list[Trial]:
    """What is tried, in order; what this machine cannot do is refused when it is tried."""
    repeat = f"runs of this machine cannot be repeated: check its memory, try --device cpu, and {REPORT}"
    eager, no_graphs = (*PLAIN, EAGER), f"add --set {EAGER}, and {REPORT}"
    no_kernels = f"add --set engine.kernels=plain, and {REPORT}"
    found = [
        Trial("eager", eager, f"nothing can be trained here: {REPORT}"),
        Trial("eager, again", eager, repeat, like="eager"),
        Trial("eager, resumed", eager, f"do not resume runs here, and {REPORT}", like="eager", train=train_resumed),
        Trial("fleet of two", PLAIN, f"train one run at a time, and {REPORT}", like="eager", train=train_fleet),
        Trial("graphed", (*PLAIN, GRAPHED), no_graphs, like="eager"),
        Trial("fused kernels", (*FUSED, EAGER), no_kernels, like="eager", tolerance=BFLOAT16_LOSS),
        Trial("fused, graphed", (*FUSED, GRAPHED), no_graphs, like="fused kernels"),
    ]
    if device.type != "cpu":
        single = (*eager, "engine.precision=float32")
        wrong = f"this device computes other numbers than the CPU: use --device cpu, update its driver, and {REPORT}"
        found += [
            Trial("on the CPU", single, f"nothing can be trained on the CPU: {REPORT}", device="cpu"),
            Trial("float32", single, wrong, like="on the CPU", tolerance=FLOAT32_LOSS),
        ]
    return found


def check_training(wanted: Sequence[Trial], device: str, home: Path, deadline: Deadline) -> Iterator[Check]:
    """Try all, below ``home``; a trial is left out if time is over or what it is compared with has failed."""
    done: dict[str, Path] = {}
    for trial in wanted:
        if trial.like is not None and not deadline.left:
            yield Check(trial.name, "left out", "there was no time left; add --time-budget 5m")
            continue
        yield _check(trial, trial.device or device, home, done)


def _check(trial: Trial, device: str, home: Path, done: dict[str, Path]) -> Check:
    started = time.perf_counter()
    try:
        with process_state_restored():
            folders = (trial.train or train_once)(trial, device, home / trial.name.replace(" ", "-").replace(",", ""))
    except UsageError as refusal:  # the settings are ours, so this machine is the reason
        return Check(trial.name, "not here", str(refusal))
    except Exception as error:
        return Check(trial.name, "failed", f"{failure(error)}; {trial.way_out}")
    done[trial.name] = folders[0]
    took = duration(time.perf_counter() - started)
    if trial.like is None:
        return Check(trial.name, "ok", f"{described(folders[0])} ({took})")
    if trial.like not in done:
        return Check(trial.name, "left out", f'there is nothing to compare it with, because "{trial.like}" failed')
    found = [compare(done[trial.like], folder, trial.tolerance) for folder in folders]
    if wrong := next((one for one in found if not one.agrees), None):
        return Check(trial.name, "failed", f'{wrong.text} of "{trial.like}"; {trial.way_out}')
    return Check(trial.name, "ok", f'{found[0].text} of "{trial.like}" ({took})')


@dataclass(frozen=True)
class Comparison:
    """Whether two runs agree as promised, and how much they differ; the text ends where the other run is named."""

    agrees: bool
    text: str


def compare(reference: Path, other: Path, tolerance: float) -> Comparison:
    """Compare two runs: their weights and losses to the bit, or the loss of the first epoch up to a tolerance.

    Later epochs are not compared, because rounding grows from step to step.
    """
    return compare_losses(reference, other, tolerance, epochs=1) if tolerance else compare_bits(reference, other)


def compare_bits(reference: Path, other: Path) -> Comparison:
    """The weights and the losses of all epochs must be the same bits."""
    ours, theirs = (load_file(RunFolder(run).weights_file) for run in (reference, other))
    apart = [name for name in ours if name not in theirs or not torch.equal(ours[name], theirs[name])]
    if apart or ours.keys() != theirs.keys():
        return Comparison(False, f"its weights differ in {len(apart)} of {len(ours)} tensors from those")
    if losses(reference) != losses(other):
        return Comparison(False, "its losses differ from those")
    return Comparison(True, "the same bits as those")


def compare_losses(reference: Path, other: Path, tolerance: float, *, epochs: int) -> Comparison:
    """The losses of the first epochs may differ by a share of the reference's."""
    pairs = zip(losses(reference)[:epochs], losses(other)[:epochs], strict=True)
    apart = max(abs(theirs - ours) / abs(ours) for ours, theirs in pairs)
    text = f"losses differ by up to {apart:.0e} (allowed {tolerance:.0e}) from those"
    return Comparison(apart <= tolerance, text)


def losses(run: Path) -> list[float]:
    """The loss of each epoch, from the log of a run."""
    return [float(line["loss"]) for line in RunFolder(run).log()]


def described(run: Path) -> str:
    """What ran: executor, kernels, precision, threads, and the losses."""
    machine = RunFolder(run).result().machine
    how = f"{machine['executor']}, {machine['kernels']} kernels, {machine['precision']}, threads {machine['threads']}"
    return f"{how}; losses {', '.join(number(loss, 3) for loss in losses(run))}"
