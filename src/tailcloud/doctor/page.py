"""The page of ``tailcloud doctor``: everything that is known about an installation, as plain text to paste."""

import getpass
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tailcloud.doctor.cache_check import check_caches
from tailcloud.doctor.check import Check, Deadline, failing
from tailcloud.doctor.compiled_check import NAME as COMPILED_CHECK
from tailcloud.doctor.compiled_check import compiled_run
from tailcloud.doctor.installation import environment_variables, installed
from tailcloud.doctor.machine import machine_facts
from tailcloud.doctor.network_check import NAME as NETWORK_CHECK
from tailcloud.doctor.network_check import check_network
from tailcloud.doctor.training_check import check_training, trials
from tailcloud.doctor.weights_check import check_weights
from tailcloud.formatting import counted, duration, readable

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """What was found, in sections: facts, and checks."""

    facts: dict[str, Facts]
    checks: dict[str, list[Check]]
    seconds: float

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for checks in self.checks.values() for check in checks if check.status == "failed"]

    @property
    def verdict(self) -> str:
        """The page in one sentence."""
        done = [check for checks in self.checks.values() for check in checks if check.status in {"ok", "failed"}]
        made = f"{counted(len(done), 'check')} in {duration(self.seconds)}"
        if self.failed:
            return f"{len(self.failed)} failed of {made}: {'; '.join(self.failed)}."
        return f"All is well: {made}."

    def text(self) -> str:
        """The page, without the name of the user and the path of the home folder."""
        lines = ["tailcloud doctor"]
        for title, facts in self.facts.items():
            lines += ["", title, *table(facts)]
        for title, checks in self.checks.items():
            lines += ["", title, *table([(check.status, check.name, check.sentence) for check in checks])]
        return "\n".join([*lines, "", without_names(self.verdict)])


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with aligned columns, without control characters and names; the last column is not padded."""
    rows = [[without_names(readable(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [f"  {line.rstrip()}" for line in lines]


def without_names(text: str) -> str:
    """Text without the home folder, which is "~", and without the user's name in other paths, which is "USER"."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|\W|$)", "~", text)
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in a container
        return text
    return re.sub(rf"(?<=[/_-]){re.escape(user)}(?=[/\s;,.)]|$)", "USER", text) if user != "root" else text


def examine(device: torch.device, caches: Sequence[Path], seconds: float, note: Callable[[str], None]) -> Page:
    """Do all checks, in about so many seconds; ``note`` receives what is checked next."""
    started, deadline = time.perf_counter(), Deadline(seconds)
    with TemporaryDirectory(prefix="tailcloud-doctor-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with compiled_run(device.type, home) as compiled:
            note("reading caches and weights")
            weights, stored = check_weights(), check_caches(caches, deadline)
            note("training digits in every executor")
            training = list(check_training(trials(device), device.type, home, deadline))
            with failing(NETWORK_CHECK, training.append):
                training.append(check_network(device))
            note("waiting for the compiler")
            with failing(COMPILED_CHECK, training.append):
                training.append(compiled.check(deadline))
    facts: dict[str, Facts] = {"Installed": installed(), "This machine": machine_facts(device)}
    facts |= {"Set in the environment": environment_variables()}
    checks = {"Training digits-lt, and comparing": training, "Caches": stored, "Pretrained weights": weights}
    return Page({title: rows for title, rows in facts.items() if rows}, checks, time.perf_counter() - started)
