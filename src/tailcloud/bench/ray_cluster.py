"""A Ray cluster to train on: how it is reached, and which share of a machine each run gets."""

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import counted
from tailcloud.training.devices import cores

ANSWER = 5.0  # seconds that an address has to answer
SMALL_STORE = 2**27  # bytes of Ray's object store on one machine, where nothing large passes through it
QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
AT_HOME = {"include_dashboard": False, "object_store_memory": SMALL_STORE}
ADDRESS = re.compile(r"(ray://)?[^:/]+:\d+")
INSTALL = "pip install 'tailcloud[ray]'"


@dataclass(frozen=True)
class Cluster:
    """What a command says about where to train: an address (none: the Ray at hand), a device, the share of each run."""

    address: str | None = None
    device: str = "auto"
    gpus: float | None = None  # None: by itself
    cores: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address, and shares that no run can have."""
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise UsageError(f"--on ray={self.address} is no address; give --on ray=HOST:PORT, the port is mostly 6379")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise UsageError(f"--device {self.device} cannot be had with --on ray; give auto, cpu or cuda")
        if self.gpus is not None and not 0 < self.gpus <= 1:
            raise UsageError(
                f"--gpus-per-run {self.gpus:g} must lie above 0 and be at most 1: each run trains on one GPU"
            )
        if self.gpus is not None and self.device == "cpu":
            raise UsageError(f"--gpus-per-run {self.gpus:g} contradicts --device cpu; leave one of them out")
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"--cores-per-run {self.cores} must be at least 1")


def asked(on: str | None, device: str, gpus: float | None, cores: int | None) -> Cluster | None:
    """The cluster of ``--on ray`` or ``--on ray=ADDRESS``; none for this machine alone."""
    if on is None:
        for option, value in {"--gpus-per-run": gpus, "--cores-per-run": cores}.items():
            if value is not None:
                raise UsageError(
                    f"{option} {value:g} is for --on ray; without it runs share this machine by themselves"
                )
        return None
    name, equals, address = on.partition("=")
    if name != "ray" or (equals and not address):
        raise UsageError(f"--on {on} is no place to train; give --on ray, or --on ray=HOST:PORT for a cluster")
    return Cluster(address or None, device, gpus, cores)


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """The ``ray`` module, connected; what was connected here is left again, and what was started here ended.

    Without an address that is the cluster of RAY_ADDRESS, or the one that this machine is a part of; where there is
    none, a Ray of this machine alone is started. A Ray that this process is connected to already is used as it is.
    """
    ray = _imported()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, cluster.address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _imported() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a training tool tells nobody what it does
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of tasks that Ctrl-C has cancelled
    try:
        import ray
    except ImportError:
        raise TailcloudError(f"--on ray needs Ray, which is not installed; get it with: {INSTALL}") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    try:
        if address is None:
            _join_or_start(ray)
        else:
            _knock(address)
            ray.init(address=address, **QUIET)
    except (OSError, RuntimeError, ValueError) as error:
        address = address or os.environ.get("RAY_ADDRESS")
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise TailcloudError(
            f'{where} cannot be reached ({said}); "ray status" on one of its machines says whether it runs'
        ) from None


def _join_or_start(ray: Any) -> None:
    known = os.environ.get("RAY_ADDRESS", "")
    if ADDRESS.fullmatch(known):
        _knock(known)
    try:
        ray.init(address="auto", **QUIET)
    except ConnectionError:
        if known:
            raise
        ray.init(address="local", num_cpus=cores(), **QUIET, **AT_HOME)


def _knock(address: str) -> None:
    """Ray would try for minutes; a machine that is there answers at once."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER):
        pass


@dataclass(frozen=True)
class Portion:
    """What each run gets: a share of one GPU, or none, and whole cores."""

    gpus: float
    cores: int

    def __str__(self) -> str:
        """1 GPU and 16 cores."""
        share = f"{self.gpus:g} GPU and " if self.gpus else ""
        return f"{share}{counted(self.cores, 'core')}"


def portion(machines: Sequence[Mapping[str, float]], cluster: Cluster) -> Portion:
    """The share of a run on machines with these resources (``CPU``, ``GPU``), as asked or by itself.

    By itself a run has a whole GPU where there are any, with its part of the machine's cores; else one core.
    """
    with_gpus = [machine for machine in machines if machine.get("GPU")]
    wanted = cluster.device == "cuda" or cluster.gpus is not None or (cluster.device == "auto" and bool(with_gpus))
    gpus = (cluster.gpus or 1.0) if wanted else 0.0
    beside = min((machine.get("CPU", 0) / machine["GPU"] for machine in with_gpus), default=1.0)
    chosen = Portion(gpus, cluster.cores or max(1, int(beside * gpus)))
    if not any(m.get("GPU", 0) >= chosen.gpus and m.get("CPU", 0) >= chosen.cores for m in machines):
        have = "; ".join(dict.fromkeys(f"{m.get('GPU', 0):g} GPUs and {m.get('CPU', 0):g} cores" for m in machines))
        raise TailcloudError(
            f"a run needs {chosen}, and the machines of this Ray have {have}; "
            "change --gpus-per-run, --cores-per-run or --device"
        )
    return chosen


def machines_of(ray: Any) -> list[Mapping[str, float]]:
    """What each machine of the cluster has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
