"""The device of a run, its threads, and the record of the machine."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

import tailcloud
from tailcloud import plugins
from tailcloud.errors import TailcloudError, UsageError, unknown
from tailcloud.recipe import Engine, Recipe

SMALL_STEP = 2e9  # FLOPs; below, several threads are slower than one
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a Linux container: "200000 100000" is two cores, "max 100000" all

DeviceName = Literal["auto", "cpu", "cuda", "mps"]


def pick_device(name: str) -> torch.device:
    """The device of that name; ``auto`` is CUDA if there is a GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in get_args(DeviceName):
        raise unknown("device", name, get_args(DeviceName))
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(name, False):
        raise TailcloudError(f"PyTorch sees no {name} device on this machine; use --device cpu")
    return torch.device(name)


def set_deterministic(device: torch.device) -> None:
    """Use deterministic cuDNN algorithms, so that a resumed run is bit-identical."""
    if device.type == "cuda":
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


def set_threads(recipe: Recipe, flops: int) -> None:
    """Set the number of threads: that of the recipe, or else one per core, or one if a step is small."""
    torch.set_num_threads(threads_for(recipe.engine, flops, cores()))


def threads_for(engine: Engine, flops: int, available: int) -> int:
    """The number of threads for steps of so many FLOPs: that of the recipe, or all, or one if a step is small."""
    return engine.threads or (1 if flops < SMALL_STEP else available)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """So many threads within this context."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """The cores that this process may use: PyTorch's choice, limited by its affinity and its container's quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(torch.get_num_threads(), affinity, _quota()))


def _quota() -> int:
    try:
        quota, period = QUOTA.read_text().split()
        return sys.maxsize if quota == "max" else round(int(quota) / int(period))
    except (OSError, ValueError):
        return sys.maxsize


def resumed_device(name: str, recorded: str | None) -> torch.device:
    """The device on which a run was started, unless another one is named."""
    if name != "auto" or recorded is None:
        return pick_device(name)
    try:
        return pick_device(recorded)
    except TailcloudError:
        raise TailcloudError(
            f"this run was started on {recorded}, which this machine does not have; continue with --device cpu "
            "(the result will not be bit-identical)"
        ) from None


def check_engine(engine: Engine, device: torch.device) -> None:
    """Refuse an engine that the device does not support: graphs, bfloat16 and fused kernels need CUDA."""
    if engine.executor == "compiled" and device.type not in {"cpu", "cuda"}:
        raise UsageError(f'engine.executor = "compiled" needs --device cpu or cuda, not {device.type}')
    for field, value in {"executor": "graphed", "precision": "bfloat16", "kernels": "fused"}.items():
        if getattr(engine, field) == value and device.type != "cuda":
            raise UsageError(f'engine.{field} = "{value}" needs --device cuda, not {device.type}')


def environment(device: torch.device) -> dict[str, Any]:
    """What bit-identical results depend on."""
    return {
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "tailcloud": tailcloud.__version__,
        **({"plugins": loaded} if (loaded := plugins.plugins_fingerprint()) else {}),
    }


def machine(device: torch.device) -> dict[str, Any]:
    """The machine, for comparing running times."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **environment(device),
    }


def commit() -> str | None:
    """The git commit of a source checkout, with "+" if files differ from it; TAILCLOUD_COMMIT overrides it."""
    source = Path(tailcloud.__file__).parents[2]
    if "TAILCLOUD_COMMIT" in os.environ or not (source / ".git").exists():
        return os.environ.get("TAILCLOUD_COMMIT")
    try:
        return _git(source, "rev-parse", "HEAD") + ("+" if _git(source, "status", "--porcelain", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
