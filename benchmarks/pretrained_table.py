"""The records of benchmarks/pretrained.py as tables for docs/pretrained.md and README.md."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tailcloud.confidence_interval import wilson_interval
from tailcloud.errors import TailcloudError
from tailcloud.formatting import NOT_MEASURED, counted, duration, number
from tailcloud.reporting.tables import markdown, mean_std

Record = dict[str, Any]
Group = list[Record]  # the seeds of one row

FIGURES = {"top1": "top-1", "balanced_accuracy": "balanced accuracy", "many": "many", "medium": "medium", "few": "few"}
HEAD = ("", "time budget", "trained", "method", "epochs", "seeds", *FIGURES.values(), "whole command")
CIFAR, README_DATA = "cifar100-lt", "clothing"
TITLES = {
    "clothing": "Photographs of garments",
    "chula_rbc12": "Red blood cells",
    CIFAR: "CIFAR-100-LT, γ = 100",
}
ABOUT = {
    "clothing": "`clothing`: 4,729 training photographs in 17 classes, 989 to 18 each",
    "chula_rbc12": "`chula_rbc12`: 16,467 training images in 12 classes, 4,225 to 251 each",
    CIFAR: "`cifar100-lt`: 10,847 training images in 100 classes, 500 to 5 each",
}
OURS, BEFORE, SCRATCH, PLAIN, PLAIN_FROZEN = "tailcloud", "before", "scratch", "plain", "plain-frozen"
NAMES = {
    OURS: "tailcloud as it chooses",
    BEFORE: "tailcloud 0.1, from scratch",
    SCRATCH: "tailcloud with `--weights none`",
    PLAIN: "plain script, the whole network",
    PLAIN_FROZEN: "plain script, features and a linear head",
}
PARTS = {"all": "everything", "last": "last layers", "head": "head on features", "scratch": "from scratch"}
NOT_YET = "Not measured yet."


def read(folder: Path) -> list[Record]:
    """All records."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def photographs(records: Sequence[Record]) -> list[str]:
    """A section for each data set of images from users."""
    return sections([record for record in records if record["data"] != CIFAR])


def cifar(records: Sequence[Record]) -> list[str]:
    """The section of CIFAR-100-LT, which has a table of its own."""
    return sections([record for record in records if record["data"] == CIFAR])


def sections(records: Sequence[Record]) -> list[str]:
    """A heading, a table and the origin of its figures for each data set; a sentence if there is none."""
    names = sorted({record["data"] for record in records}, key=lambda name: place(name, TITLES))
    lines = [section(name, [record for record in records if record["data"] == name]) for name in names]
    return ["\n\n".join(lines)] if lines else [NOT_YET]


def section(name: str, records: Sequence[Record]) -> str:
    """One data set."""
    images = ", ".join(f"{count:,}" for count in sorted({record["test_images"] for record in records}))
    about = f"{ABOUT.get(name, f'`{name}`')}; {images} test images."
    rows = [row(group) for group in grouped(records)]
    return "\n".join([f"### {TITLES.get(name, name)}\n", f"{about}\n", markdown(HEAD, rows), "", *origin(records)])


def grouped(records: Iterable[Record]) -> list[Group]:
    """The records of each row, in the order of rows: by device, budget and what was run."""
    groups: dict[tuple[str, float, str], Group] = {}
    for record in records:
        groups.setdefault((record["device"], record["budget"] or math.inf, record["what"]), []).append(record)
    for (device, _, what), group in groups.items():
        seeds = [record["seed"] for record in group]
        if len(set(seeds)) < len(seeds):
            raise TailcloudError(
                f"benchmarks/results/pretrained has two records of {what}, {group[0]['data']}, {device}, "
                f"budget {group[0]['budget']}, with one seed; remove one of them"
            )
    return [groups[key] for key in sorted(groups, key=lambda key: (*key[:2], place(key[2], NAMES), key[2]))]


def place(name: str, order: Iterable[str]) -> int:
    """The place of a name in an order; others are last."""
    names = list(order)
    return names.index(name) if name in names else len(names)


def row(group: Group) -> list[str]:
    """One row: the mean over seeds."""
    first = group[0]
    budget = duration(first["budget"]) if first["budget"] else "none"
    network = distinct(f"`{one['backbone']}`, {one['size']} pixels, {PARTS[one['part']]}" for one in group)
    return [
        NAMES.get(first["what"], f"tailcloud with `{first['what']}`"),
        f"{place_name(first)}, {budget}",
        network,
        distinct(f"`{one['method']}`" for one in group),
        distinct(one["epochs"] for one in group),
        str(len(group)),
        *(figure(group, key) for key in FIGURES),
        mean_std(one["seconds"] for one in group).text(digits=0) + " s",
    ]


def figure(group: Group, key: str) -> str:
    """Mean ± deviation over seeds; top-1 of a single seed has its 95 % interval."""
    text = mean_std(one[key] for one in group).text()
    if key != "top1" or len(group) > 1:
        return text
    low, high = wilson_interval(group[0]["top1"], group[0]["test_images"])
    return f"{text} ({number(low)} – {number(high)})"


def place_name(record: Record) -> str:
    """The device in words."""
    return str(record["machine"]["gpu"]) if record["device"] == "cuda" else f"{record['cores']} CPU cores"


def origin(records: Sequence[Record]) -> list[str]:
    """The machines and commits."""
    about = [one["machine"] for one in records]
    machines = {f"{one.get('gpu') or one['processor']}, torch {one['torch']}": None for one in about}
    commits = {f"`{one['commit']}`": None for one in records}
    return [f"- machines: {'; '.join(machines)}", f"- commits: {', '.join(commits)}"]


def distinct(values: Iterable[str]) -> str:
    """The different values, in order."""
    return " / ".join(dict.fromkeys(values))


def readme(records: Sequence[Record]) -> list[str]:
    """Balanced accuracy before, of the plain scripts and now, for each device and budget."""
    groups = grouped(record for record in records if record["data"] == README_DATA)
    rows = [readme_row(of_setting(groups, key)) for key in dict.fromkeys(map(setting, groups))]
    head = ("", "from scratch", "a plain fine-tuning script", "**tailcloud**")
    measured = [place for place in range(len(head)) if any(row[place] != NOT_MEASURED for row in rows)]
    seeds = sorted({len(group) for group in groups})
    images = groups[0][0]["test_images"]
    said = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    return [
        markdown([head[place] for place in measured], [[row[place] for place in measured] for row in rows]),
        "",
        f"Balanced accuracy in percent on {images} test photographs, and the time of the whole command:",
        f"mean ± standard deviation, {said}. [Everything that was measured](docs/pretrained.md).",
    ]


def setting(group: Group) -> tuple[str, float | None]:
    """Device and time budget."""
    return group[0]["device"], group[0]["budget"]


def of_setting(groups: Sequence[Group], key: tuple[str, float | None]) -> dict[str, Group]:
    """The rows of one device and budget, by what was run."""
    return {group[0]["what"]: group for group in groups if setting(group) == key}


def readme_row(groups: dict[str, Group]) -> list[str]:
    """One device and budget; of the two plain scripts, the better one."""
    first = next(iter(groups.values()))[0]
    plain = [groups[what] for what in (PLAIN, PLAIN_FROZEN) if what in groups]
    better = max(plain, key=lambda group: mean_std(one["balanced_accuracy"] for one in group).mean or 0.0, default=None)
    budget = duration(first["budget"]) if first["budget"] else "no time budget"
    cells = [groups.get(BEFORE) or groups.get(SCRATCH), better, groups.get(OURS)]
    return [f"{place_name(first)}, {budget}", *(readme_cell(group) for group in cells)]


def readme_cell(group: Group | None) -> str:
    """Balanced accuracy and time."""
    if group is None:
        return NOT_MEASURED
    took = duration(mean_std(one["seconds"] for one in group).mean)
    return f"{figure(group, 'balanced_accuracy')} in {took}"
