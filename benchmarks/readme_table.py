"""The table of README.md: top-1 of a few methods on CIFAR-LT, those that are ahead of GCL included."""

from collections.abc import Iterator, Sequence

from leaders import first_rows, name_of

from tailcloud.formatting import number
from tailcloud.reporting.tables import DatasetTable, MethodRow, markdown
from tailcloud.runs.result import Result

OURS = "gcl"
METHODS = {  # what a newcomer should compare, the baseline first
    "ce": "cross-entropy",
    "ce-mixup+crt": "cross-entropy + mixup + cRT",
    "mislas": "MisLAS",
    "gcl": "GCL (the default)",
    "gcl-official": "GCL, the released code",
    "gcl-angular": "GCL on angles (`gcl-angular`)",
    "logit-adjust-cosine": "logit adjustment, AutoAugment, 400 epochs (`cifar100-lt/best`)",
    "logit-adjust-cosine-taught": "**the same network, taught by three of them (`--teacher`)**",
}
DATA = {
    "cifar10-lt:200": "CIFAR-10-LT, γ = 200",
    "cifar10-lt:100": "CIFAR-10-LT, γ = 100",
    "cifar10-lt:50": "CIFAR-10-LT, γ = 50",
    "cifar100-lt:200": "CIFAR-100-LT, γ = 200",
    "cifar100-lt:100": "CIFAR-100-LT, γ = 100",
    "cifar100-lt:50": "CIFAR-100-LT, γ = 50",
}
FEW = ("cifar100-lt:100", "few-shot classes, CIFAR-100-LT, γ = 100")
AVERAGE = "these three as one model (`tailcloud average`, three times the parameters)"
USUAL = 3  # seeds; a cell with another number of them says so

Rows = dict[str, dict[str, MethodRow]]


def parts(tables: Sequence[DatasetTable], averages: Sequence[Result]) -> Iterator[str]:
    """The table, with averages of seeds in its last row, and under it which methods are ahead of GCL where."""
    rows: Rows = {table.spec: {name_of(row): row for row in first_rows(table)} for table in tables}
    specs = [spec for spec in DATA if spec in rows]
    methods = [method for method in METHODS if any(method in rows[spec] for spec in specs)]
    header = ["method", *(DATA[spec] for spec in specs), *([FEW[1]] if FEW[0] in specs else [])]
    lines = [[METHODS[method], *cells(rows, specs, method)] for method in methods]
    lines += [[AVERAGE, *average_cells(averages, specs)]] if averages else []
    yield f"{markdown(header, lines)}\n"
    yield (
        "Top-1 on the balanced test set in percent, ResNet-32, last epoch: mean ± standard deviation over\n"
        f"{USUAL} seeds where nothing else is said; – is not measured. Few-shot: fewer than 20 training images."
    )
    if ahead := "; ".join(sentence for spec in specs if (sentence := ahead_of_ours(spec, rows[spec]))):
        yield f"In their usual settings, above `{OURS}` by mean: {ahead}."


def cells(rows: Rows, specs: Sequence[str], method: str) -> Iterator[str]:
    """Top-1 on each data set, then the few-shot classes of one."""
    for spec in specs:
        yield cell(rows[spec].get(method), "top1")
    if FEW[0] in specs:
        yield cell(rows[FEW[0]].get(method), "few")


def average_cells(averages: Sequence[Result], specs: Sequence[str]) -> Iterator[str]:
    """The same of one model each, whose networks had no teachers."""
    known = {average.dataset.spec: average for average in averages if not (average.recipe or {}).get("distill")}
    for spec in specs:
        yield number(known[spec].top1.last) if spec in known else "–"
    if FEW[0] in specs:
        yield number(known[FEW[0]].few) if FEW[0] in known else "–"


def cell(row: MethodRow | None, metric: str) -> str:
    """A mean with its deviation, and its seeds where they are not the usual number."""
    if row is None:
        return "–"
    seeds = len(row.seeds)
    said = "" if seeds == USUAL else f" ({seeds} seed{'s' if seeds > 1 else ''})"
    return f"{row.summary(metric).text()}{said}"


def ahead_of_ours(spec: str, rows: dict[str, MethodRow]) -> str:
    """Which of all measured methods, in their usual settings, have a higher mean top-1 than ours."""
    if OURS not in rows:
        return ""
    bar = rows[OURS].summary("top1").mean or 0.0
    usual = [row for name, row in rows.items() if name == row.method]
    names = [f"`{row.method}`" for row in usual if (row.summary("top1").mean or 0.0) > bar]
    return f"{spec}: {', '.join(names)}" if names else ""
