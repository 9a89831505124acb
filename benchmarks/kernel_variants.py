"""Which variant of each convolution kernel is fastest on this GPU?

    python benchmarks/kernel_variants.py --out /tmp/kernel-variants.json
    ncu --clock-control none --set full -o kernels python benchmarks/kernel_variants.py --profile
    python benchmarks/kernel_variants.py --count

ResNet-32 on images of 32 pixels, in bfloat16. For each width of the network, one forward, one backward and one weight
gradient kernel is timed in several variants, with 64 images (as one run has them) and with 512 (as eight runs fill the
chip). Each variant computes from the same maps as the default; its largest difference, as a part of the largest number,
must be near the rounding of bfloat16 (0.004). Then whole forward and backward passes, captured as graphs, are timed by
the default and by the fastest variants: alone, eight at a time, and an evaluation.

What does not compile, or is not computed right, is a line of the table and nothing else. ``--seconds`` bounds the time
from the start: what comes later in the list is left out. ``--count`` needs no GPU: it prints the launches of a step and
what they must do.
"""

import argparse
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from measurement import write_record
from torch import Tensor

from tailcloud.backbones import CifarResNet, create_backbone
from tailcloud.kernels import residual
from tailcloud.kernels.residual import FusedResNet, Variant, Workspace

NETWORK, SIDE = "resnet32", 32
WIDTHS = 16, 32, 64
BATCHES = 64, 512
RUNS = 8
EVALUATED = 2048  # images
KINDS = {"convolve": "FORWARD", "convolve_back": "BACKWARD", "weigh": "WEIGHTS"}
RESULT = {"convolve": 4, "convolve_back": 8, "weigh": 2}  # which argument a kernel writes
CONSTANTS = {"convolve": 11, "convolve_back": 12}  # which argument has what it makes of its statistics
ROUNDING = 0.01  # the largest difference that is taken for rounding
LAUNCHES, REPEATS = 20, 7
RESERVED = 60.0  # seconds at the end for whole passes


Settings = tuple[tuple[str, int], ...]  # of constants of tailcloud.kernels.residual
FEWER: Settings = (("PARTIALS", 1024),)  # statistics at a time, and so registers


@dataclass(frozen=True)
class Candidate:
    """A variant for one kernel and width."""

    kind: str
    width: int
    variant: Variant = field(default_factory=Variant)
    settings: Settings = ()

    @property
    def name(self) -> str:
        """Short, for a table."""
        one = self.variant
        way = f"gluon {one.channel_warps}x{one.contiguous}" if one.channel_warps else f"P{one.pixels}"
        rest = "".join(f" {key}={value}" for key, value in self.settings)
        return f"{way} w{one.num_warps} s{one.num_stages}{rest}"


def candidates() -> list[Candidate]:
    """The most promising first; every default comes before its variants."""
    defaults = [Candidate(kind, width) for width in WIDTHS for kind in KINDS]
    found = []
    for kind in ("convolve", "convolve_back"):
        found += [Candidate(kind, width, Variant(channel_warps=width // 16)) for width in WIDTHS]
        found += [Candidate(kind, width, Variant(pixels=2)) for width in (16, 32)]
    found += [Candidate("weigh", width, Variant(pixels=2)) for width in (16, 32)]
    for kind in ("convolve", "convolve_back"):
        found += [
            Candidate(kind, 16, Variant(channel_warps=1, contiguous=4)),
            Candidate(kind, 16, Variant(channel_warps=1), FEWER),
            Candidate(kind, 16, Variant(), FEWER),
            Candidate(kind, 16, Variant(), (("PARTIALS", 2048),)),
            Candidate(kind, 32, Variant(), FEWER),
            Candidate(kind, 64, Variant(), FEWER),
            Candidate(kind, 16, Variant(pixels=2), FEWER),
            Candidate(kind, 32, Variant(channel_warps=2, contiguous=8)),
            Candidate(kind, 32, Variant(channel_warps=1, contiguous=8)),
            Candidate(kind, 32, Variant(channel_warps=2), FEWER),
            Candidate(kind, 64, Variant(num_warps=8)),
            Candidate(kind, 64, Variant(channel_warps=4, num_warps=8)),
        ]
    found += [Candidate("weigh", 16, Variant(pixels=2, num_warps=warps)) for warps in (2, 8)]
    found += [Candidate("weigh", width, Variant(num_warps=8)) for width in WIDTHS]
    found += [Candidate("weigh", 16, Variant(pixels=2), (("CHUNK", 256),)), Candidate("weigh", 16, Variant(pixels=4))]
    for kind in ("convolve", "convolve_back"):
        found += [
            Candidate(kind, 16, Variant(pixels=2, num_warps=8)),
            Candidate(kind, 16, Variant(pixels=2, num_stages=2)),
            Candidate(kind, 16, Variant(num_warps=2)),
            Candidate(kind, 16, Variant(num_warps=8)),
            Candidate(kind, 16, Variant(channel_warps=1, num_warps=8)),
            Candidate(kind, 16, Variant(channel_warps=1, num_warps=2)),
            Candidate(kind, 16, Variant(pixels=4)),
            Candidate(kind, 32, Variant(pixels=2, num_warps=8)),
            Candidate(kind, 16, Variant(channel_warps=1), (("TILE", 2048),)),
            Candidate(kind, 16, Variant(channel_warps=1), (("TILE", 8192),)),
            Candidate(kind, 16, Variant(pixels=2), (("TILE", 8192),)),
            Candidate(kind, 16, Variant(), (("TILE", 8192),)),
        ]
    return defaults + found


@contextmanager
def chosen(*several: Candidate) -> Iterator[None]:
    """The constants of the kernels while networks are made and launched."""
    constants: dict[str, Any] = {name: dict(getattr(residual, name)) for name in KINDS.values()}
    for one in several:
        constants[KINDS[one.kind]][one.width] = one.variant
        constants |= dict(one.settings)
    with patch.multiple(residual, **constants):
        yield


@dataclass(frozen=True, eq=False)
class Launch:
    """A launch of a kernel, as it was recorded."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    sizes: dict[str, Any]

    @property
    def kind(self) -> str:
        """The name of the kernel."""
        return str(self.kernel.fn.__name__)

    @property
    def key(self) -> tuple[object, ...]:
        """The same for launches of the same compiled kernel."""
        return self.kind, *sorted((name, str(value)) for name, value in self.sizes.items())

    def __call__(self) -> None:
        """Launch it."""
        self.kernel[self.grid](*self.arguments, **self.sizes)

    def is_for(self, kind: str, width: int) -> bool:
        """Whether this is the usual launch of a kernel: in training, within a stage, with a shortcut."""
        usual = self.sizes.get("SHORTCUT", 1) == self.sizes.get("SKIP", 1) == self.sizes.get("MOVING", 1) == 1
        return self.kind == kind and usual and self.sizes["CI"] == self.sizes["CO"] == width


def network_of(device: torch.device, seed: int = 0) -> FusedResNet:
    """A network with random weights."""
    torch.manual_seed(seed)
    backbone = create_backbone(NETWORK)
    assert isinstance(backbone, CifarResNet)
    backbone.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return FusedResNet(backbone, SIDE, SIDE)


def recorded(network: FusedResNet, images: Tensor, *, training: bool = True) -> list[Launch]:
    """The launches of both passes, of which none is made."""
    launches: list[Launch] = []

    def record(kernel: Any, grid: tuple[int, ...], *arguments: Any, **sizes: Any) -> None:
        launches.append(Launch(kernel, grid, arguments, sizes))

    with patch.object(network, "launch", record):
        network.backbone.train(training)
        features = network.forward(images, training=training)
        if training:
            network.backward(images, features)
    return launches


def images_of(count: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, SIDE, SIDE, 3, generator=generator).to(device, torch.bfloat16)


# ---- compiling, in processes: a thread waits for others that hold Python's lock


@lru_cache(maxsize=4)
def _to_compile(several: tuple[Candidate, ...]) -> dict[tuple[object, ...], Launch]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with chosen(*several):
        network, images = network_of(device), images_of(2, device)
        launches = recorded(network, images, training=False) + recorded(network, images)
    return {one.key: one for one in launches}


def compile_kernels(task: tuple[tuple[Candidate, ...], int, int]) -> str | None:
    """Every ``step``-th kernel of a network from ``start`` on; with step 0 that of its candidate. Returns an error."""
    several, start, step = task
    try:
        launches = list(_to_compile(several).values())
        wanted = launches[start::step] if step else [x for x in launches if x.is_for(several[0].kind, several[0].width)]
        for one in wanted:
            one.kernel.warmup(*one.arguments, grid=one.grid, **one.sizes)
    except Exception as error:
        return _one_line(error)
    return None


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:200]


# ---- checking and timing


def maps_of(memory: Workspace) -> list[Tensor]:
    """Everything that kernels read and write, except partial results and packed weights."""
    lists = memory.raw, memory.kept, memory.gradient, memory.bordered, memory.saved, memory.affine
    return [one for several in (*lists, memory.coefficients, memory.sums) for one in several]


def difference(found: Tensor, exact: Tensor) -> float:
    """The largest difference as a part of the largest number; infinite where something is not a number."""
    largest = (found.float() - exact.float()).abs().max() / exact.float().abs().max()
    return float(largest) if bool(torch.isfinite(found).all()) else float("inf")


class Bench:
    """The default network, after a step with each batch size, and what was measured against it."""

    def __init__(self, device: torch.device, batches: Sequence[int]) -> None:
        self.device, self.images = device, {count: images_of(count, device) for count in batches}
        self.network = network_of(device)
        self.launches: dict[int, list[Launch]] = {}
        for count, images in self.images.items():  # a larger batch gets memory of its own
            self.launches[count] = recorded(self.network, images)
            for one in self.launches[count]:
                one()

    def measured(self, candidate: Candidate) -> dict[str, Any]:
        """Differences and microseconds of a candidate."""
        row: dict[str, Any] = {"kind": candidate.kind, "width": candidate.width, "name": candidate.name}
        row |= {"variant": asdict(candidate.variant), "settings": dict(candidate.settings)}
        for count, images in self.images.items():
            with chosen(candidate):
                network = network_of(self.device)
                launches = recorded(network, images)
            launch = next(one for one in launches if one.is_for(candidate.kind, candidate.width))
            self._same_memory(network, count)
            launches[0]()  # packs the weights
            if count == min(self.images) and not any(name == "TILE" for name, _ in candidate.settings):
                row |= self._differences(launch, self.launches[count][launches.index(launch)])
            row[f"us_{count}"] = 1e6 * graph_seconds(launch, self.device)
        return row

    def _same_memory(self, network: FusedResNet, count: int) -> None:
        """The maps of the default; another size of tiles has borders elsewhere, and gets numbers of the same size."""
        there, here = (one.workspace(count, training=True) for one in (self.network, network))
        for source, target in zip(maps_of(there), maps_of(here), strict=True):
            if len(source) == len(target):
                target.copy_(source)
            else:
                target.copy_(source[:1000].repeat(-(-len(target) // 1000))[: len(target)])

    def _differences(self, launch: Launch, default: Launch) -> dict[str, float]:
        """To what the default wrote from the same numbers."""
        exact, found = (one.arguments[RESULT[launch.kind]] for one in (default, launch))
        found.fill_(torch.nan)
        launch()
        if launch.kind == "weigh":
            size = launch.arguments[6]
            return {"difference": difference(found.view(-1, size).sum(0), exact.view(-1, size).sum(0))}
        constants = (one.arguments[CONSTANTS[launch.kind]] for one in (launch, default))
        return {"difference": difference(found, exact), "constants_difference": difference(*constants)}


def graph_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of one launch, in a graph of several."""
    if device.type == "cpu":
        started = time.perf_counter()
        work()
        return time.perf_counter() - started
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            work()
    graph.replay()
    return event_seconds(graph.replay) / LAUNCHES


def event_seconds(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        before.record()
        work()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / 1000)
    return statistics.median(times)


# ---- whole passes


@dataclass(frozen=True)
class Captured:
    """Both passes of a network as a graph, on a stream of its own."""

    graph: torch.cuda.CUDAGraph
    stream: torch.cuda.Stream
    network: FusedResNet
    kept: tuple[Any, ...]

    def replay(self) -> None:
        with torch.cuda.stream(self.stream):
            self.graph.replay()


def captured(device: torch.device, count: int, seed: int, *, training: bool = True) -> Captured:
    network, images = network_of(device, seed), images_of(count, device)
    network.backbone.train(training)
    slope = torch.randn(count, network.backbone.features, device=device) / count

    def work() -> tuple[Any, ...]:
        features = network.forward(images, training=training)
        return features, network.backward(images, slope) if training else None

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return Captured(graph, stream, network, (images, slope, kept))


def passes(name: str, several: Sequence[Candidate], device: torch.device, exact: list[Tensor] | None) -> dict[str, Any]:
    """Seconds of forward and backward with 64 images, alone and eight at a time, and of an evaluation."""
    with chosen(*several), torch.no_grad():
        steps = [captured(device, BATCHES[0], seed) for seed in range(RUNS)]
        evaluation = captured(device, EVALUATED, 0, training=False)
    for one in steps:
        one.replay()
    torch.cuda.synchronize()
    row: dict[str, Any] = {"name": name, "kernels": {f"{one.kind} {one.width}": one.name for one in several}}
    row["us_alone"] = 1e6 * wall_seconds(steps[:1], 100)
    row["us_of_eight"] = 1e6 * wall_seconds(steps, 50) / RUNS
    row["us_evaluation"] = 1e6 * wall_seconds([evaluation], 10)
    features, gradients = steps[0].kept[2]
    found = [features, *gradients]
    if exact is not None:
        far = [float((one - two).norm() / two.norm()) for one, two in zip(found, exact, strict=True)]
        row["features_differ"], row["gradients_differ"] = far[0], statistics.median(far[1:])
    row["outputs"] = [one.clone() for one in found]
    return row


def wall_seconds(graphs: Sequence[Captured], times: int) -> float:
    """Of one replay of each of the graphs."""
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(times):
            for one in graphs:
                one.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - started) / times)
    return best


def fastest(rows: Sequence[dict[str, Any]], column: str, tried: Sequence[Candidate]) -> list[Candidate]:
    """For each kernel and width the fastest right one, of those with the default's tiles."""
    best: dict[tuple[str, int], tuple[float, Candidate]] = {}
    for row, candidate in zip(rows, tried, strict=True):
        right = row.get("difference") is not None and row["difference"] < ROUNDING
        if column not in row or not right or any(name != "PARTIALS" for name, _ in candidate.settings):
            continue
        own = replace(candidate, settings=())
        place = candidate.kind, candidate.width
        best[place] = min(best.get(place, (float("inf"), own)), (row[column], own), key=lambda one: one[0])
    return [candidate for _, candidate in best.values()]


def families() -> dict[str, list[Candidate]]:
    """Whole networks that are worth a look beside the fastest of each kernel."""
    both = "convolve", "convolve_back"
    gluon = {width: [Candidate(kind, width, Variant(channel_warps=width // 16)) for kind in both] for width in WIDTHS}
    ways = {
        "gluon 16": gluon[16],
        "gluon 16, 32": gluon[16] + gluon[32],
        "P2 16": [Candidate(kind, 16, Variant(pixels=2)) for kind in KINDS],
    }
    fewer = [replace(one, settings=FEWER) for one in ways["gluon 16, 32"]]
    return {"FEWER": [Candidate("convolve", 16, Variant(), FEWER)], **ways, "gluon 16, 32, FEWER": fewer}


# ---- counting


@dataclass(frozen=True)
class Work:
    """What a launch does: bytes between multiprocessors and L2, bytes of operands within them, FLOPs."""

    launches: int
    programs: int
    moved: float
    operands: float
    flops: float

    def __add__(self, other: "Work") -> "Work":
        return Work(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


def work_of(launch: Launch) -> Work:
    """Of the simple variant. Tiles overlap by two rows, and a bordered tile is written and read by the same program.

    Operands of ``tl.dot`` are loaded, stored in shared memory and loaded from there: three times their size.
    """
    sizes, programs, number = launch.sizes, math.prod(launch.grid), 2
    if launch.kind not in KINDS:
        return Work(1, programs, 0, 0, 0)
    across, rows, stride = -(-sizes["W"] // sizes["S"]), sizes["R"], sizes["S"]
    flops = 2 * 9 * sizes["CI"] * sizes["CO"] * across * rows
    inputs = number * (rows * stride + 2) * sizes["W"] * sizes["CI"]
    outputs = number * (rows + 2) * across * sizes["CO"]
    own = number * rows * across * sizes["CO"], number * rows * stride * sizes["W"] * sizes["CI"]
    taps = number * 9 * sizes["BCI"] * sizes["BCO"]
    if launch.kind == "convolve":
        moved = inputs * (3 + (sizes["SHORTCUT"] > 0)) + own[0]
        operands = 3 * (number * 9 * rows * sizes["BWO"] * sizes["BCI"] + taps)
    elif launch.kind == "convolve_back":
        moved = outputs * 4 + own[1] * (0 if sizes["LAST"] else 3 + (sizes["SKIP"] > 0))
        operands = 3 * (number * 9 * rows * stride * sizes["BWI"] * sizes["BCO"] + taps) * (not sizes["LAST"])
        flops *= not sizes["LAST"]
    else:  # a program has some tiles and one row of taps
        tiles, flops = sizes["TILES"], flops * sizes["TILES"] // 3
        moved = tiles * (inputs + outputs) + 4 * 3 * sizes["CI"] * sizes["CO"]
        operands = 3 * tiles * number * rows * sizes["BWO"] * (4 * sizes["BCI"] + sizes["BCO"])
    return Work(1, programs, programs * moved, programs * operands, programs * flops)


def counted(launches: Sequence[Launch]) -> str:
    """A table of kernels and widths."""
    total: dict[tuple[str, str], Work] = {}
    for one in launches:
        place = one.kind, f"{one.sizes['CI']} to {one.sizes['CO']}" if one.kind in KINDS else ""
        total[place] = total.get(place, Work(0, 0, 0, 0, 0)) + work_of(one)
    total["all", ""] = reduce(add, total.values())
    lines = [
        "| kernel | channels | launches | programs | MB to and from L2 | MB of operands | GFLOP |",
        "|---|---|" + 5 * "---:|",
    ]
    for (kind, channels), work in total.items():
        figures = f"{work.launches} | {work.programs:,} | {work.moved / 1e6:.0f} | {work.operands / 1e6:.0f}"
        lines.append(f"| {kind} | {channels} | {figures} | {work.flops / 1e9:.2f} |")
    return "\n".join(lines)


# ---- the table


def printed(rows: Sequence[dict[str, Any]], batches: Sequence[int]) -> None:
    columns = [f"us_{count}" for count in batches]
    print(f"{'kernel':<14}{'width':>5}  {'variant':<34}{'difference':>11}" + "".join(f"{one:>10}" for one in columns))
    for row in sorted(rows, key=lambda row: (row["width"], row["kind"], row.get(columns[-1], float("inf")))):
        far = row.get("difference")
        start = f"{row['kind']:<14}{row['width']:>5}  {row['name']:<34}{'' if far is None else f'{far:.5f}':>11}"
        print(
            start + "".join(f"{row[one]:>10.2f}" if one in row else f"{'-':>10}" for one in columns),
            row.get("error", ""),
        )


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0, help="at most, whole passes included")
    parser.add_argument("--out", type=Path, default=Path("kernel-variants.json"))
    parser.add_argument("--count", action="store_true", help="only count launches, bytes and FLOPs of a step")
    parser.add_argument("--profile", action="store_true", help="only launch the first candidates, for a profiler")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    given, started = arguments(words), time.monotonic()
    device, tried = torch.device("cuda" if torch.cuda.is_available() else "cpu"), candidates()
    if given.count:
        print(counted(recorded(network_of(torch.device("cpu")), images_of(BATCHES[0], torch.device("cpu")))))
        return
    if given.profile:
        profile(tried[: 3 * len(KINDS) + 12], device)
        return
    record: dict[str, Any] = {"format": 1, "kernels": [], "passes": []}
    workers = max(2, (os.cpu_count() or 4) - 2)
    pool = ProcessPoolExecutor(max_workers=workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        default = submitted(pool, ())
        single = [pool.submit(compile_kernels, ((one,), 0, 0)) for one in tried]
        error = outcome(default)
        print(f"the default: {error or 'compiled'} after {time.monotonic() - started:.0f} s", flush=True)
        record["kernels"] = time_kernels(Bench(device, BATCHES), tried, single, started + given.seconds - RESERVED)
        print(f"{time.monotonic() - started:.0f} s", flush=True)
        time_passes(pool, device, record, tried, started + given.seconds)
    finally:
        write_record(given.out, record, device)
        pool.shutdown(wait=False, cancel_futures=True)
    print(f"{time.monotonic() - started:.0f} s in all")


def submitted(pool: ProcessPoolExecutor, several: tuple[Candidate, ...], tasks: int = 14) -> list[Future[str | None]]:
    """Compile all kernels of a network."""
    return [pool.submit(compile_kernels, (several, start, tasks)) for start in range(tasks)]


def outcome(tasks: Sequence[Future[str | None]]) -> str | None:
    """The first error, once all are done. If a process died, kernels are compiled at their first launch."""
    try:
        return next((error for error in [task.result() for task in tasks] if error is not None), None)
    except (BrokenProcessPool, CancelledError):
        return None


def time_kernels(
    bench: Bench, tried: Sequence[Candidate], compiled: Sequence[Future[str | None]], deadline: float
) -> list[dict[str, Any]]:
    """A row for each candidate, as long as there is time."""
    rows = []
    for candidate, task in zip(tried, compiled, strict=True):
        if time.monotonic() > deadline:
            task.cancel()
        else:
            rows.append(attempt(bench, candidate, outcome([task])))
    printed(rows, BATCHES)
    if len(rows) < len(tried):
        print(f"{len(tried) - len(rows)} candidates are left out: no time", flush=True)
    return rows


def time_passes(
    pool: ProcessPoolExecutor, device: torch.device, record: dict[str, Any], tried: Sequence[Candidate], deadline: float
) -> None:
    """Rows for the default, the fastest variants, and some others."""
    rows = record["kernels"]
    plans: dict[str, list[Candidate]] = {"default": []}
    plans |= {f"fastest with {count}": fastest(rows, f"us_{count}", tried[: len(rows)]) for count in BATCHES[::-1]}
    plans["fastest, FEWER"] = [replace(one, settings=FEWER) for one in plans[f"fastest with {BATCHES[-1]}"]]
    plans |= {**families(), "default again": []}
    compiled = {name: submitted(pool, tuple(several)) for name, several in plans.items() if several}
    exact: list[Tensor] | None = None
    for name, several in plans.items():
        if time.monotonic() > deadline:
            print(f"{name} is left out: no time")
            continue
        outcome(compiled.get(name, []))
        row = whole_passes(name, several, device, exact)
        outputs = row.pop("outputs", None)
        exact = exact or outputs
        record["passes"].append(row)
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)


def attempt(bench: Bench, candidate: Candidate, error: str | None) -> dict[str, Any]:
    """What was measured, or the error."""
    try:
        if error is None:
            return bench.measured(candidate)
    except Exception as failed:
        error = _one_line(failed)
    return {"kind": candidate.kind, "width": candidate.width, "name": candidate.name, "error": error}


def whole_passes(
    name: str, several: Sequence[Candidate], device: torch.device, exact: list[Tensor] | None
) -> dict[str, Any]:
    try:
        return passes(name, several, device, exact)
    except Exception as failed:
        return {"name": name, "error": _one_line(failed)}


def profile(tried: Sequence[Candidate], device: torch.device) -> None:
    """Launch each candidate once, with many images."""
    images = images_of(BATCHES[-1], device)
    for candidate in tried:
        with chosen(candidate):
            launches = recorded(network_of(device), images)
        next(one for one in launches if one.is_for(candidate.kind, candidate.width))()
        torch.cuda.synchronize()
        print(candidate.kind, candidate.width, candidate.name)


if __name__ == "__main__":
    main()
