"""The estimates of benchmarks/large_benchmark_cost.py as tables for docs/scaling.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import large_benchmark_cost as cost
from large_benchmark_cost import BENCHMARKS

from tailcloud.bench import read_table
from tailcloud.formatting import counted, magnitude, number
from tailcloud.reporting.tables import markdown

GPUS = (1, 8, 64)
SEEDS = 3
BACKBONE = "resnet50"
MISSING = "not measured yet"
TRAINING_IMAGE = cost.CHANNELS * cost.SIDE**2  # bytes, in a cache


def parts(decoding: Sequence[Mapping[str, Any]], streaming: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everything on the page that is a figure."""
    measured = training_speed(streaming)
    decoded = {row["data"]: row["images_per_second"] for record in decoding for row in record["rows"]}
    return [
        *stands_on(decoding, measured),
        *assumed(),
        *what_is_computed(),
        *time_and_money(measured),
        *tables_of_the_paper(measured),
        *memory_and_disk(),
        *feeding(measured, decoded),
    ]


def training_speed(records: Sequence[Mapping[str, Any]]) -> tuple[float, str] | None:
    """Images a second of ResNet-50 training steps on one GPU, wherever the data are fastest, and where that is from."""
    for record in records:
        about, rates = record["machine"], [row["images_per_second"] for row in record["rows"]]
        measured = [rate for rate in rates if rate is not None]
        if (record["backbone"], record["size"]) == (BACKBONE, cost.PIXELS) and about["gpu"] and measured:
            how = f"batches of {record['batch']}, {about['gpu']}, torch {about['torch']}, commit `{record['commit']}`"
            return max(measured), how
    return None


def speed_of(measured: tuple[float, str]) -> float:
    """FLOPs a second: of images a second, each three passes through ResNet-50."""
    return measured[0] * cost.work_of(BENCHMARKS[0]).first


def stands_on(decoding: Sequence[Mapping[str, Any]], measured: tuple[float, str] | None) -> Iterator[str]:
    yield "### What is measured\n"
    rows = []
    if measured:
        flops = f"{magnitude(speed_of(measured))}FLOP/s"
        rows.append(["ResNet-50 training, images a second on one GPU", f"{measured[0]:,.0f} ({flops})", measured[1]])
    else:
        how = "`benchmarks/streaming.py` on a GPU writes `benchmarks/results/streaming-*.json`; this page then fills in"
        rows.append(["ResNet-50 training, images a second on one GPU", MISSING, how])
    for record in decoding:
        about = record["machine"]
        for row in record["rows"]:
            what = f"JPEG {row['width']} × {row['height']}, {row['bytes'] / 1000:.0f} kB, to {record['side']} × "
            what += f"{record['side']}: images a second and core"
            rows.append(
                [what, f"{row['images_per_second']:,.0f}", f"{about['processor']}, commit `{record['commit']}`"]
            )
    yield markdown(["", "measured", "where"], rows)
    yield ""


def assumed() -> Iterator[str]:
    yield "### What is assumed\n"
    yield "Nothing in this list was measured here. Put your own figures into `benchmarks/large_benchmark_cost.py`.\n"
    yield f"- A GPU hour costs **{cost.PRICE:.2f} US dollars**. That is a parameter of this page, not a quote."
    for gpus, bandwidth in cost.BANDWIDTH.items():
        where = "inside of one machine" if gpus == 8 else "between machines"
        share = f"{100 * cost.EFFICIENCY[gpus]:.0f} %"
        yield (
            f"- One run on {gpus} GPUs computes at {share} of {gpus} times one GPU, and each GPU sends "
            f"{bandwidth / 1e9:.0f} GB/s {where}."
        )
    yield "- Every pass of every network here reaches the FLOPs a second that ResNet-50 training was measured at."
    yield "- Images arrive as fast as they are trained on: see the last table for what that takes."
    yield ""


def what_is_computed() -> Iterator[str]:
    yield "### What a run computes\n"
    rows = []
    for one in BENCHMARKS:
        work = cost.work_of(one)
        moves = "last block and head" if one.frozen else "everything"
        epochs = " + ".join(map(str, one.epochs))
        size = [f"{one.train:,}", f"{one.test:,}", one.backbone, moves, epochs]
        flops = [f"{magnitude(work.forward)}FLOP", f"{magnitude(work.first)}FLOP", f"{work.total / 1e15:,.0f} PFLOP"]
        rows.append([one.spec, *size, magnitude(work.parameters), *flops])
    head = ["", "training images", "test images", "network", "stage 1 moves", "epochs", "parameters"]
    yield markdown([*head, "forward, an image", "training, an image", "a run"], rows)
    yield (
        "\nCounted by `tailcloud.classifier.cost_of` at 224 pixels; a multiply-add is two FLOPs. A part of a run "
        "are the images for\ntesting and validation, after every tenth epoch (`selection.every` of the recipes) and in "
        "the end.\n"
    )


def time_and_money(measured: tuple[float, str] | None) -> Iterator[str]:
    yield "### Time and money of one run\n"
    if measured is None:
        yield f"Needs the images a second of ResNet-50 training on one GPU, which are {MISSING}.\n"
        return
    rows = []
    for one in BENCHMARKS:
        for gpus in GPUS:
            found = cost.estimate(one, speed_of(measured), gpus)
            waits = f"{100 * found.waiting / found.seconds:.0f} %"
            rows.append([one.spec, str(gpus), hours(found.seconds), f"{found.money:,.0f}", mega(found.traffic), waits])
    head = ["", "GPUs", "hours", "US dollars", "MB sent by each GPU and step", "of the time waiting for gradients"]
    yield markdown(head, rows)
    yield (
        "\nBoth stages at a batch of 512, of which 64 GPUs have 8 images each: there the sums of gradients can take "
        "longer than the\nsteps that they hide behind. Many GPUs are better spent on many runs.\n"
    )


def tables_of_the_paper(measured: tuple[float, str] | None) -> Iterator[str]:
    yield "### A whole table, each run on one GPU\n"
    if measured is None:
        yield f"Needs the same figure, which is {MISSING}.\n"
        return
    runs, rows = SEEDS * len(read_table("table2").rows), []
    for one in BENCHMARKS:
        alone = cost.estimate(one, speed_of(measured), 1)
        times = [hours(-(-runs // gpus) * alone.seconds) for gpus in GPUS]
        rows.append([one.spec, str(runs), *times, f"{runs * alone.money:,.0f}"])
    yield markdown(["", "runs", *(f"hours, {counted(gpus, 'GPU')}" for gpus in GPUS), "US dollars"], rows)
    yield (
        "\nEvery row of table 2 with three seeds, by `tailcloud bench table2 --on ray`, as if each run trained both of "
        "its stages.\nRuns that share a first stage train it once, so this is an upper bound. Runs on one GPU each "
        "send nothing to each other.\n"
    )


def memory_and_disk() -> Iterator[str]:
    yield "### Memory and disk\n"
    rows = []
    for one in BENCHMARKS:
        ranks = [giga(cost.memory(one, gpus)) for gpus in GPUS]
        rows.append([one.spec, *ranks, giga(cost.cache_bytes(one)), giga(cost.folder_bytes(one))])
    head = [*(f"GB of each GPU, {counted(gpus, 'GPU')}" for gpus in GPUS), "GB of the cache", "GB of a run folder"]
    yield markdown(["", *head], rows)
    yield (
        "\nComputed, at a batch of 512 in bfloat16: weights, gradients, momentum, and the maps that wait for the "
        "backward pass or\nare at work. What the libraries take besides (workspaces, fragments) comes on top; "
        "`engine.accumulate` divides the maps.\nThe cache (`data.cache`) holds the training images as squares "
        "of 256 pixels and\nthose for testing and validation as squares of 224, on a disk or in the memory of the "
        "host.\n"
    )


def feeding(measured: tuple[float, str] | None, decoded: Mapping[str, float]) -> Iterator[str]:
    yield "### Feeding the GPUs\n"
    if measured is None or not decoded:
        yield f"Needs the images a second of ResNet-50 training on one GPU, which are {MISSING}.\n"
        return
    rows = []
    for one in (one for one in BENCHMARKS if one.spec in decoded):
        rate = speed_of(measured) / cost.work_of(one).first
        cores = rate / decoded[one.spec]
        rows.append([one.spec, f"{rate:,.0f}", f"{cores:.0f}", number(rate * TRAINING_IMAGE / 1e9, 2)])
    head = ["", "images a second of one GPU in stage 1", "cores that decode for it", "GB/s from the cache instead"]
    yield markdown(head, rows)
    yield (
        "\nWithout a cache each GPU needs that many cores of the measured kind; with one, each image is decoded once "
        "before the\nfirst epoch and read from the cache from then on.\n"
    )


def hours(seconds: float) -> str:
    return number(seconds / 3600, 1 if seconds >= 36_000 else 2)


def mega(size: float) -> str:
    return f"{size / 1e6:,.0f}"


def giga(size: float) -> str:
    return number(size / 1e9)
