"""Digits by ``torch.compile``, in a process of its own: compiling takes long, and nothing else can end it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailcloud.doctor.check import Check, Deadline
from tailcloud.doctor.training_check import REPORT, Trial, compare_losses, train_once
from tailcloud.launch.train import process_state_restored
from tailcloud.runs.folder import RunFolder

RECIPE = "digits-lt/ce"
EPOCHS = 3  # of one step each
SETTINGS = (
    f"stage1.epochs={EPOCHS}",
    "stage1.batch=331",  # all images: one batch size is compiled
    "stage1.train=head",  # which halves the time of compiling
    "engine.precision=float32",
    "engine.kernels=plain",
    "engine.threads=1",
    "logging.examples=false",
)
TOLERANCE = 1e-3  # relative difference of an epoch's loss; on a CPU it is about 1e-6
WAY_OUT = f"add --set engine.executor=eager, and {REPORT}"
NAME = "compiled"


def train_command(device: str, folder: Path) -> list[str]:
    """The command that compiles and trains."""
    settings = [word for setting in (*SETTINGS, "engine.executor=compiled") for word in ("--set", setting)]
    words = ["train", RECIPE, "--device", device, "--out", str(folder), *settings]
    return [sys.executable, "-P", "-m", "tailcloud", *words]


class CompiledRun:
    """A compiled run, started beside whatever else is checked."""

    def __init__(self, device: str, home: Path) -> None:
        self.device, self.folder, self.reference = device, home / NAME, home / f"{NAME}-reference"
        self.log = home / f"{NAME}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                train_command(device, self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the compiler has processes of its own, which end with this one
            )

    def check(self, deadline: Deadline) -> Check:
        """Wait for it as long as there is time, and compare it with an eager run."""
        limit = deadline.left
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return Check(NAME, "left out", "compiling takes longer here, which is usual; add --time-budget 5m")
        if code:
            return Check(NAME, "failed", f"{self.last_error()}; {WAY_OUT}")
        if RunFolder(self.folder).result().machine["executor"] != "compiled":
            return Check(NAME, "not here", self.fallback_reason())
        eager = Trial("eager", (*SETTINGS, "engine.executor=eager"), WAY_OUT, recipe=RECIPE)
        with process_state_restored():
            train_once(eager, self.device, self.reference)
        found = compare_losses(self.reference, self.folder, TOLERANCE, epochs=EPOCHS)
        text = f"{found.text} of an eager run"
        return Check(NAME, "ok", text) if found.agrees else Check(NAME, "failed", f"{text}; {WAY_OUT}")

    def last_error(self) -> str:
        """The sentence that the command ended with."""
        said = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return said[-1].removeprefix("error: ").rstrip(".") if said else "the command was killed"

    def fallback_reason(self) -> str:
        """Why the run was not compiled, from its notes."""
        notes = " ".join(self.log.read_text(errors="replace").split())
        found = re.search(r"torch\.compile failed here \(.*?\), so the steps run eagerly", notes)
        return found[0] if found else "the steps ran eagerly, and no note says why"

    def end(self) -> None:
        """End it and its processes, if they still run."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def compiled_run(device: str, home: Path) -> Iterator[CompiledRun]:
    """A compiled run beside what is done inside; ended at the end."""
    run = CompiledRun(device, home)
    try:
        yield run
    finally:
        run.end()
