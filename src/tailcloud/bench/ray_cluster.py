"""A Ray cluster to train on: its address, and the GPU share and cores of each run."""

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from typing import Any

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import counted
from tailcloud.training.devices import cores

CONNECT_SECONDS = 5.0
SMALL_STORE = 2**27  # bytes of Ray's object store on a single machine: only small objects pass through it
QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
SINGLE_MACHINE = {"include_dashboard": False, "object_store_memory": SMALL_STORE}
ADDRESS = re.compile(r"(ray://)?[^:/]+:\d+")
INSTALL = "pip install 'tailcloud[ray]'"


@dataclass(frozen=True)
class Cluster:
    """Where a bench trains: an address (None: the Ray of this machine), a device, and the resources of each run."""

    address: str | None = None
    device: str = "auto"
    gpus: float | None = None  # None: chosen automatically
    cores: int | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid address, device, GPU share or number of cores."""
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise UsageError(
                f"--on ray={self.address} is not an address; give --on ray=HOST:PORT, usually with port 6379"
            )
        if self.device not in {"auto", "cpu", "cuda"}:
            raise UsageError(f"--device {self.device} is not available with --on ray; give auto, cpu or cuda")
        if self.gpus is not None and not 0 < self.gpus <= 1:
            raise UsageError(f"--gpus-per-run {self.gpus:g} must be above 0 and at most 1: each run trains on one GPU")
        if self.gpus is not None and self.device == "cpu":
            raise UsageError(f"--gpus-per-run {self.gpus:g} contradicts --device cpu; leave one of them out")
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"--cores-per-run {self.cores} must be at least 1")


def parse_cluster(on: str | None, device: str, gpus: float | None, cores: int | None) -> Cluster | None:
    """The cluster of ``--on ray`` or ``--on ray=ADDRESS``; None without ``--on``."""
    if on is None:
        for option, value in {"--gpus-per-run": gpus, "--cores-per-run": cores}.items():
            if value is not None:
                raise UsageError(
                    f"{option} {value:g} needs --on ray; without it, runs share this machine automatically"
                )
        return None
    name, equals, address = on.partition("=")
    if name != "ray" or (equals and not address):
        raise UsageError(f"--on {on} is unknown; give --on ray, or --on ray=HOST:PORT for a cluster")
    return Cluster(address or None, device, gpus, cores)


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """The ``ray`` module, connected; a connection or a Ray that was started here is shut down afterwards.

    Without an address this is the cluster of RAY_ADDRESS, or the one that this machine belongs to; without
    either, Ray is started on this machine. If this process is connected already, that connection is used.
    """
    ray = _imported()
    if ray.is_initialized():
        yield ray
        return
    with chdir(os.sep):  # Ray's workers import from the folder in which it is started; a user's has files of anybody
        _connect(ray, cluster.address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _imported() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of tasks that Ctrl-C has cancelled
    try:
        import ray
    except ImportError:
        raise TailcloudError(f"--on ray needs Ray, which is not installed; install it with: {INSTALL}") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    try:
        if address is None:
            _join_or_start(ray)
        else:
            _check_reachable(address)
            ray.init(address=address, **QUIET)
    except (OSError, RuntimeError, ValueError) as error:
        address = address or os.environ.get("RAY_ADDRESS")
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise TailcloudError(
            f'{where} cannot be reached ({reason}); run "ray status" on one of its machines to check whether it runs'
        ) from None


def _join_or_start(ray: Any) -> None:
    known = os.environ.get("RAY_ADDRESS", "")
    if ADDRESS.fullmatch(known):
        _check_reachable(known)
    try:
        ray.init(address="auto", **QUIET)
    except ConnectionError:
        if known:
            raise
        ray.init(address="local", num_cpus=cores(), **QUIET, **SINGLE_MACHINE)


def _check_reachable(address: str) -> None:
    """Fail within seconds if nothing listens at the address; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS):
        pass


@dataclass(frozen=True)
class RunResources:
    """What each run gets: a share of one GPU, or 0, and whole cores."""

    gpus: float
    cores: int

    def __str__(self) -> str:
        """For example "1 GPU and 16 cores"."""
        share = f"{self.gpus:g} GPU and " if self.gpus else ""
        return f"{share}{counted(self.cores, 'core')}"


def run_resources(machines: Sequence[Mapping[str, float]], cluster: Cluster) -> RunResources:
    """The resources of each run on machines with these (``CPU``, ``GPU``).

    By default a run gets a whole GPU, if there are any, with its share of the machine's cores; otherwise one core.
    """
    with_gpus = [machine for machine in machines if machine.get("GPU")]
    wanted = cluster.device == "cuda" or cluster.gpus is not None or (cluster.device == "auto" and bool(with_gpus))
    gpus = (cluster.gpus or 1.0) if wanted else 0.0
    cores_per_gpu = min((machine.get("CPU", 0) / machine["GPU"] for machine in with_gpus), default=1.0)
    chosen = RunResources(gpus, cluster.cores or max(1, int(cores_per_gpu * gpus)))
    if not any(m.get("GPU", 0) >= chosen.gpus and m.get("CPU", 0) >= chosen.cores for m in machines):
        have = "; ".join(dict.fromkeys(f"{m.get('GPU', 0):g} GPUs and {m.get('CPU', 0):g} cores" for m in machines))
        raise TailcloudError(
            f"a run needs {chosen}, and the machines of this Ray cluster have {have}; "
            "change --gpus-per-run, --cores-per-run or --device"
        )
    return chosen


def machine_resources(ray: Any) -> list[Mapping[str, float]]:
    """The resources of each machine of the cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
