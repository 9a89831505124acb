"""``tailcloud.train``: train a run from Python, as ``tailcloud train`` does from the command line."""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tailcloud import plugins
from tailcloud.data import Dataset
from tailcloud.errors import UsageError
from tailcloud.files import refuse_single_path
from tailcloud.formatting import number
from tailcloud.launch.execute import execute, resume_advice, resume_command
from tailcloud.launch.run_data import CachedSource, OpenDataset, clear_data_cache
from tailcloud.launch.run_plan import PlannedRun, TrainRequest, plan_runs
from tailcloud.recipe import Recipe
from tailcloud.runs.observer import LoggingObserver, Observer
from tailcloud.runs.result import Result
from tailcloud.serving.load import TrainedClassifier, load


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        path: the run folder.
        recipe: the recipe, with every field.
        result: every figure of ``result.json``.
    """

    path: Path
    recipe: Recipe
    result: Result

    def __repr__(self) -> str:
        """The run in one line."""
        figures = f"{self.result.method} on {self.result.dataset.spec}, top-1 {number(self.result.top1.last)} %"
        return f"Run({str(self.path)!r}: {figures})"

    @cached_property
    def model(self) -> TrainedClassifier:
        """The trained model on the CPU, as ``tailcloud.load`` gives it; loaded on first use."""
        return load(self.path)

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"


def train(
    recipe: str | os.PathLike[str] | Recipe | None = None,
    *,
    data: str | os.PathLike[str] | Dataset | None = None,
    root: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str = "auto",
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    time_budget: str | float | None = None,
    like: str | os.PathLike[str] | None = None,
    teachers: Sequence[str | os.PathLike[str]] = (),
    resume: bool = False,
    observer: Observer | None = None,
) -> Run:
    """Train one run and write its folder: recipe, log, checkpoints, model, result and report.

    It does what ``tailcloud train`` does, with the same checks, and gives the same model. Nothing is printed: notes and
    epochs go to the ``observer``, or at level INFO to the ``tailcloud`` logger. An existing run is never overwritten.

    Args:
        recipe: a name such as "cifar10-lt/gcl", the path of a TOML file, or a ``Recipe``. Without one, the recipe is
            that of the data; for your own images, or with a time budget, one is chosen.
        data: a name such as "cifar10-lt:100", the path of your images, or an open ``tailcloud.data.Dataset``; by
            default the data of the recipe, without a recipe "digits-lt".
        root: the folder with the data files.
        seed: everything random follows from it; by default the seed of the recipe, which is 0.
        out: the run folder; by default ``runs/DATA-METHOD-seedN``.
        device: "auto", "cpu", "cuda" or "mps".
        settings: fields of the recipe to change: ``{"stage1.epochs": 3}`` or ``["stage1.epochs=3"]``.
        time_budget: without a recipe, choose one that trains within this time: "90s", "10m", "2h", or seconds.
        like: a run folder: train as that run was, but for the settings, such as ``{"method": "ce"}``.
        teachers: run folders, from whose mean logits the run also learns (distillation).
        resume: continue the run in ``out``. A finished run is returned as it is.
        observer: receives stages, epochs and notes.

    Returns:
        The finished run.

    Raises:
        UsageError: a wrong name, value or combination; nothing was started.
        TailcloudError: data or weights are missing, the folder is in use or not empty, or training failed.
        Stopped: Ctrl-C. The message says how to resume.
        Terminated: SIGTERM, after a checkpoint was saved. The message says how to resume.

    >>> import tailcloud
    >>> run = tailcloud.train("digits-lt/gcl", settings={"stage1.epochs": 3}, out="runs/first")  # doctest: +SKIP
    >>> run.result.top1.last, run.report  # doctest: +SKIP
    (61.2, PosixPath('runs/first/report.html'))
    >>> run.model.predict_proba(images).argmax(dim=1)  # doctest: +SKIP
    """
    started = time.perf_counter()
    refuse_single_path("teachers", teachers)
    source = CachedSource(OpenDataset(data)) if isinstance(data, Dataset) else None
    request = TrainRequest(
        recipes=() if recipe is None else [recipe if isinstance(recipe, Recipe) else os.fspath(recipe)],
        data=source if isinstance(data, Dataset) else _text(data),
        root=_text(root),
        settings=setting_words(settings),
        seeds=() if seed is None else [one_seed(seed)],
        out=None if out is None else Path(out),
        resume=resume,
        device=device,
        time_budget=time_budget,
        like=None if like is None else Path(like),
        teachers=[Path(teacher) for teacher in teachers],
        started=started,
        origin=f"tailcloud.train(..., data={source.spec!r})" if source else None,
    )
    observer = observer or LoggingObserver()
    with process_state_restored():
        planned = plan_run(request, observer)
        with resume_advice(partial(_resume_call, planned), [planned.folder]):
            result = execute(planned, device, observer)
    return Run(planned.folder.path, planned.recipe, result)


def one_seed(seed: object) -> int:
    """A seed of Python or NumPy as ``int``."""
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer):
        raise UsageError(
            f"seed = {seed!r} should be a whole number; for several seeds call tailcloud.train once for each, or run "
            '"tailcloud train --seed 0-4", which trains them side by side'
        )
    return int(seed)


def setting_words(settings: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    """Settings as ``KEY=VALUE``: ``{"stage1.lr": 0.05}`` and ``{"stage1": {"lr": 0.05}}`` are ``stage1.lr=0.05``."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        if isinstance(settings, str) or not all(isinstance(setting, str) for setting in settings):
            raise _not_settings(settings)
        return list(settings)
    return [f"{key}={toml_value(value, str(key))}" for key, value in settings.items()]


def toml_value(value: Any, key: str) -> str:
    """A value in TOML; NumPy's numbers are taken as Python's."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(str(name))} = {toml_value(each, f'{key}.{name}')}" for name, each in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(each, key) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | int | float):
        return json.dumps(value)
    raise UsageError(f"settings: {key} is {value!r}; it should be a number, text, a list or a table")


def _not_settings(settings: object) -> UsageError:
    return UsageError(
        f'settings is {settings!r}; it should be a dictionary such as {{"stage1.lr": 0.05}}, or a list such as '
        '["stage1.lr=0.05"]'
    )


def plan_run(request: TrainRequest, observer: Observer) -> PlannedRun:
    """The one run of a request from Python code; plugins of installed packages are loaded first."""
    for remark in plugins.load_entry_points():
        observer.note(remark)
    (planned,) = plan_runs(request)
    for reason in planned.reasons:
        observer.note(reason)
    return planned


@contextmanager
def process_state_restored() -> Iterator[None]:
    """Restore the number of threads and the cache of data, which training changes for the whole process."""
    threads = torch.get_num_threads()
    clear_data_cache()  # files may have changed since the last call
    try:
        yield
    finally:
        clear_data_cache()
        torch.set_num_threads(threads)


def _resume_call(run: PlannedRun) -> str:
    """What resumes a run: a command, or a Python call if Python code has the data."""
    if run.source:
        return f"tailcloud.train(data=..., out={str(run.folder.path)!r}, resume=True)"
    return f'"{resume_command([run])}"'


def _text(value: str | os.PathLike[str] | None) -> str | None:
    return None if value is None else os.fspath(value)
