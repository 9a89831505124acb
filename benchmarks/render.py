"""Write docs/tables.html and the figures in README.md, docs/*.md and the recipes, from benchmarks/results.

python benchmarks/render.py                  write them
python benchmarks/render.py --add RUN...     take the results of these run folders first
python benchmarks/render.py --check          exit 1 if the files are not what would be written
"""

import argparse
import html
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import angular_table
import auto_recipe_table
import beyond_table
import broken_writes_table
import calibration_table
import cifar_figures_table
import epoch_speed_table
import executors_table
import finetune_cpu_table
import finetune_speed_table
import first_step_table
import frozen_or_trained_table
import fuzz_table
import kept_stage_table
import kernel_passes_table
import kills_table
import ladder_table
import large_benchmark_cost_table
import leaders
import paper_conclusions
import pretrained_table
import readme_table
import second_stage_table
import speed_table
import step_speed_table
import streaming_table
import time_budget_table
import tiny_imagenet_table
import week_of_use_table
import wrong_labels
from recorded_results import fill_from_records, recipe_text, result_recipe_text, table_variant

from tailcloud.bench import PAPER_TABLES, FilledTable, read_table
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.table_text import markdown_sections
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import read_json, write_atomically, write_json
from tailcloud.formatting import counted, number
from tailcloud.recipe import differences, resolve
from tailcloud.reporting.provenance import commit, distinct, machine, threads, versions
from tailcloud.reporting.row_settings import kernels_of
from tailcloud.reporting.tables import (
    COLUMNS,
    DatasetTable,
    MethodRow,
    by_dataset,
    cells,
    gain,
    informative_columns,
    markdown,
    paired,
)
from tailcloud.runs.result import Result, parse_result

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path("benchmarks") / "results"
RUNS = RESULTS / "runs"
OF_THE_RUN = {"data", "seed"}  # settings that no method has an opinion on
BASELINE, OURS = "ce", "gcl"
HELD_OUT = "calibration"

Parts = Callable[[Sequence[dict[str, Any]]], Iterable[str]]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="RUN", help="finished run folders to add")
    options = parser.parse_args(arguments)
    check: bool = options.check
    try:
        for run in options.add:
            add(run, root)
        stale = {
            path: text
            for path, text in render(root).items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        }
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in stale.items():
        if check:
            print(f"{path} is out of date; run python benchmarks/render.py", file=sys.stderr)
        else:
            write_atomically(path, text)
            print(f"wrote {path}")
    return int(check and bool(stale))


def add(run: Path, root: Path) -> None:
    """Take the result of a run into the records, under the name that its content gives it.

    A run with held-out images was trained on fewer than the others: it is kept apart, for the page on calibration. So
    is an average of runs.
    """
    file = run / "result.json"
    content = read_json(file)
    result = parse_result(content, str(file))
    if result.model.members:
        name = RESULTS / average_name(result)
    else:
        name = RESULTS / f"{HELD_OUT}-{record_name(result)}" if result.protocol.split else RUNS / record_name(result)
    write_json(root / name, content)


def render(root: Path) -> dict[Path, str]:
    """What each generated file should hold."""
    results = read_results(root / RUNS)
    tables = with_variants(results)
    paper = [fill_from_records(read_table(name), results) for name in PAPER_TABLES]
    pages = Pages()
    averages = [parse_result(record, "an average") for record in read_records(root, "average-*")]
    pages.put(root / "README.md", "results", readme_table.parts(tables, averages))
    pages.put(root / "docs" / "results.md", "paper", map(paper_section, paper))
    pages.put(root / "docs" / "results.md", "datasets", map(dataset_section, tables))
    beyond_block(pages, results, averages, root)
    measured_blocks(pages, root)
    angular_block(pages, tables, root)
    pretrained_blocks(pages, root)
    recipes = root / "src" / "tailcloud" / "recipes"
    return {
        root / "docs" / "tables.html": bench_page(paper),
        **pages.texts,
        **{path: recipe_with(path, tables) for path in sorted(recipes.rglob("*.toml"))},
    }


def with_variants(results: Sequence[Result]) -> list[DatasetTable]:
    """One table for each data set; a variant of a method is a row with the name that a table of the paper gives it."""
    rows: dict[tuple[str, str], list[MethodRow]] = {}
    for variant in dict.fromkeys(map(table_variant, results)):
        for table in by_dataset([result for result in results if table_variant(result) == variant]):
            named = [replace(row, label=f"{row.method}-{variant}") if variant else row for row in table.rows]
            rows.setdefault((table.spec, table.fingerprint), []).extend(named)
    return [
        DatasetTable(*data, tuple(sorted(members, key=lambda row: place(row.results[0]))))
        for data, members in sorted(rows.items())
    ]


def recipe_with(path: Path, tables: Sequence[DatasetTable]) -> str:
    """A recipe with its measured figures in the second line."""
    text = path.read_text(encoding="utf-8")
    recipe, lines = tomllib.loads(text), text.splitlines(keepends=True)
    rows = [row for table in tables if table.spec == recipe["data"] for row in table.rows]
    row = next((row for row in rows if is_of_recipe(row, recipe)), None)
    said = 2 if lines[1].startswith("#") else 1  # a new recipe does not say anything yet
    return "".join([lines[0], f"# {expectation(row)}\n", *lines[said:]])


def is_of_recipe(row: MethodRow, recipe: dict[str, Any]) -> bool:
    """Whether the runs of a row have that recipe; old records do not say, and count by their method."""
    if row.method != recipe["method"]:
        return False
    recorded = result_recipe_text(row.results[0])
    return recorded is None or recorded == recipe_text(resolve(recipe).training_substance())


def expectation(row: MethodRow | None) -> str:
    if row is None:
        return "Not measured with this version yet."
    summaries = {COLUMNS[key].partition(",")[0]: row.summary(key) for key in ("top1", "few")}
    figures = ", ".join(f"{name} {summary.text()}" for name, summary in summaries.items() if summary.n)
    place = row.results[0].machine.get("gpu") or f"a CPU with {threads(row.results[0])}"
    seconds = f"{number(row.summary('seconds').mean, 0)} s a run, side by side, on {place}"
    seeds = counted(len(row.seeds), "seed").replace("\u00a0", " ")
    return f"{figures} (last epoch, {seeds}), {seconds}"


def read_results(folder: Path) -> list[Result]:
    """The measured runs: the baseline first, then the methods by name."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise TailcloudError(f"there are no runs in {folder}; add some with --add RUN...")
    results = [read_result(path) for path in files]
    return sorted(results, key=place)


def place(one: Result) -> tuple[object, ...]:
    """In the tables: the baseline first, then the methods by name, each before its variants; fused kernels first."""
    return one.dataset.spec, one.method != BASELINE, one.method, table_variant(one), kernels_of(one), one.protocol.seed


def read_result(path: Path) -> Result:
    result = parse_result(read_json(path), str(path))
    if path.name != record_name(result):
        raise TailcloudError(f"{path} holds the run of {record_name(result)}; rename it, or add the right run")
    return result


def record_name(result: Result) -> str:
    kernels = "" if result.device == "cpu" or kernels_of(result) == "fused" else f"-{kernels_of(result)}"
    variant = f"-{variant}" if (variant := table_variant(result)) else ""
    return f"{result.dataset.spec.replace(':', '-')}-{result.method}{variant}{kernels}-seed{result.protocol.seed}.json"


def average_name(result: Result) -> str:
    """The name of an average's record: its data, and the method and variant of its members."""
    method = result.recipe["method"] if result.recipe else result.method
    member = result.model_copy(update={"method": method, "model": result.model.model_copy(update={"members": []})})
    variant = f"-{variant}" if (variant := table_variant(member)) else ""
    return f"average-{result.dataset.spec.replace(':', '-')}-{method}{variant}.json"


def paper_section(filled: FilledTable) -> str:
    """A table of the paper, measured beside published, and which of the paper's conclusions hold."""
    said = [*markdown_sections(filled), *paper_conclusions.parts(filled)]
    return "\n".join([f"## {filled.table.title}\n", f"{filled.table.about}\n", *said])


def dataset_section(table: DatasetTable) -> str:
    """Everything that was measured on a data set, the highest top-1 first."""
    rows, columns = sorted(table.rows, key=leaders.by_top1), informative_columns(table)
    lines = [
        f"## {table.spec}\n",
        markdown([COLUMNS[column] for column in columns], [cells(row, columns) for row in rows]),
        "",
        *leaders.parts(table),
        *gain_sentences(table),
        *own_settings(table),
        *facts(table),
        "",
    ]
    return "\n".join(lines)


def gain_sentences(table: DatasetTable) -> list[str]:
    """What our method gains over the baseline in the few-shot classes, where both were measured."""
    ours, baseline = find_row(table, OURS), find_row(table, BASELINE)
    if ours is None or baseline is None:
        return []
    points = gain(ours, baseline, "few")
    if points.mean is None:
        return []
    how = f"{points.n} seeds, seed by seed" if paired(ours, baseline) else "difference of the means"
    methods, text = (ours.method, baseline.method), points.text(signed=True)
    return [f"In the few-shot classes {methods[0]} gains {text} points over {methods[1]} ({how}).\n"]


def own_settings(table: DatasetTable) -> list[str]:
    """Where the recorded recipes differ from their method's own settings: what all share, then a list to unfold.

    The list is plain HTML, which GitHub and the site show alike; a blank line would end it.
    """
    changed = {row.label: changes(row.results[0]) for row in table.rows}
    common = [one for one in changes(table.example) if all(one in own for own in changed.values())]
    apart = {label: [one for one in own if one not in common] for label, own in changed.items()}
    items = [
        f"<li><code>{html.escape(label)}</code>: {html.escape(', '.join(settings))}</li>"
        for label, settings in apart.items()
        if settings
    ]
    every = [f"Every row has settings other than its method's own: {', '.join(common)}.\n"] if common else []
    rows = counted(len(items), "row").replace("\u00a0", " ")
    summary = f"<summary>Settings that differ from the method's own: {rows}</summary>"
    return every + (["\n".join(["<details>", summary, "<ul>", *items, "</ul>", "</details>\n"])] if items else [])


def changes(result: Result) -> list[str]:
    """stage1.mixup = 0.4 instead of 1.0, for every such field; none where the recipe or the method is unknown.

    A record may be older than some options: resolved again, it has them at their defaults, as it was run.
    """
    try:
        own = resolve({"method": result.method}).training_substance()
        used = resolve(dict(result.recipe)).training_substance() if result.recipe else own
    except UsageError:
        return []
    found = list(differences(own, used))
    if distill := used.get("distill"):  # whose paths are of the machine that measured
        teachers = f"{len(distill['teachers'])} teachers, T = {distill['temperature']:g}, weight {distill['weight']:g}"
        found = [(field, then, teachers if field == "distill" else now) for field, then, now in found]
    return [f"{field} = {now} instead of {then}" for field, then, now in found if field not in OF_THE_RUN]


def find_row(table: DatasetTable, method: str) -> MethodRow | None:
    return next((row for row in table.rows if row.method == method), None)


def facts(table: DatasetTable) -> list[str]:
    return [
        f"- machine: {'; '.join(distinct(results_of(table), machine))}",
        f"- versions: {'; '.join(distinct(results_of(table), versions))}",
        f"- commit: {', '.join(distinct(results_of(table), commit))}",
        f"- fingerprint of the images: `{table.fingerprint}`",
    ]


def results_of(table: DatasetTable) -> list[Result]:
    return [result for row in table.rows for result in row.results]


def scale_parts(record: dict[str, Any]) -> list[str]:
    """A table for everything that grows with classes, and one for what grows with labels."""
    about = record["machine"]
    origin = f"{about['processor']}, one thread, torch {about['torch']}, commit `{record['commit']}`"
    fixed = (
        f"Growing classes with {record['labels']:,} labels, losses on batches of {record['batch']}; "
        f"growing labels with {record['classes']:,} classes."
    )
    tables = [
        markdown(scale_header(curves), map(scale_row, curves))
        for along in ("classes", "labels")
        if (curves := [curve for curve in record["curves"] if curve["along"] == along])
    ]
    return [f"Measured on {origin}. {fixed}\n", "\n\n".join(tables)]


def scale_header(curves: Sequence[dict[str, Any]]) -> list[str]:
    sizes = [f"{size:,}" for size in curves[0]["sizes"]]
    columns = [f"ms with {sizes[0]}", *sizes[1:-1], f"{sizes[-1]} {curves[0]['along']}"]
    return ["", *columns, "steepest growth", "MB at most", "steepest growth"]


def scale_row(curve: dict[str, Any]) -> list[str]:
    """A piece: milliseconds at each size, memory at the largest one, and the largest exponents between two sizes."""
    times = [number(1000 * value, 2 if value < 0.01 else 0) for value in curve["seconds"]]
    steepest = {what: number(max(slopes), 2) for what, slopes in curve["growth"].items()}
    return [curve["piece"], *times, steepest["seconds"], number(curve["bytes"][-1] / 1e6, 0), steepest["bytes"]]


def large_list_parts(record: dict[str, Any]) -> list[str]:
    """What opening a long list takes, step by step."""
    about = record["machine"]
    origin = f"{about['processor']}, one thread, torch {about['torch']}, commit `{record['commit']}`"
    size = f"{record['list_bytes'] / 1e6:,.0f} MB"
    what = f"A list of {record['images']:,} images of {record['classes']:,} classes: {size}."
    header = ["", "seconds", "MB at most so far"]
    rows = [[each["step"], number(each["seconds"]), number(each["peak_bytes"] / 1e6, 0)] for each in record["steps"]]
    return [f"Measured on {origin}. {what}\n", markdown(header, rows)]


def single(parts: Callable[[dict[str, Any]], Iterable[str]]) -> Parts:
    """For a block with one record."""
    return lambda records: parts(records[0])


MEASURED: tuple[tuple[str, str, str, Parts], ...] = (  # a page, a block in it, its records, its content
    ("results.md", "choosing", "choosing-*", auto_recipe_table.parts),
    ("results.md", "larger", "larger-*", tiny_imagenet_table.parts),
    ("results.md", "samplers", "samplers-*", tiny_imagenet_table.samplers),
    ("results.md", "ladder", "ladder-*", ladder_table.parts),
    ("choosing.md", "time-budget", "time-budget/*", time_budget_table.parts),
    ("choosing.md", "frozen-or-trained", "frozen-or-trained/*", frozen_or_trained_table.parts),
    ("choosing.md", "first-step", "first-step-*", first_step_table.parts),
    ("choosing.md", "kept-stage", "kept-stage-*", kept_stage_table.parts),
    ("methods.md", "choose-second-stage", "choose-second-stage-*", second_stage_table.parts),
    ("figures.md", "cifar-figures", "cifar-figures", single(cifar_figures_table.parts)),
    ("streaming.md", "streaming", "streaming-*", streaming_table.parts),
    ("review.md", "wrong-labels", "wrong-labels-*", wrong_labels.parts),
    ("robustness.md", "week-of-use", "week-of-use", single(week_of_use_table.parts)),
    ("robustness.md", "broken-writes", "broken-writes", single(broken_writes_table.parts)),
    ("robustness.md", "fuzz", "fuzz", single(fuzz_table.parts)),
    ("robustness.md", "kills", "kills", single(kills_table.parts)),
    ("predict.md", HELD_OUT, f"{HELD_OUT}-*", calibration_table.parts),
    ("performance.md", "executors", "executors-*", executors_table.parts),
    ("performance.md", "speed-cpu", "speed-cpu", single(speed_table.parts)),
    ("performance.md", "speed-cuda", "speed-cuda", single(speed_table.parts)),
    ("performance.md", "epoch-speed-cpu", "epoch-speed-cpu", single(epoch_speed_table.parts)),
    ("performance.md", "epoch-speed-cuda", "epoch-speed-cuda", single(epoch_speed_table.parts)),
    ("performance.md", "finetune-speed", "finetune-speed", single(finetune_speed_table.parts)),
    ("performance.md", "finetune-cpu", "finetune-cpu", single(finetune_cpu_table.parts)),
    ("performance.md", "step-speed", "step-speed", single(step_speed_table.parts)),
    ("performance.md", "kernel-passes", "kernel-passes", single(kernel_passes_table.parts)),
    ("performance.md", "ablation-cpu", "ablation-cpu", single(epoch_speed_table.changes)),
    ("scaling.md", "scale-cpu", "scale-cpu", single(scale_parts)),
    ("scaling.md", "long-list-cpu", "long-list-cpu", single(large_list_parts)),
)


def measured_blocks(pages: "Pages", root: Path) -> None:
    """The tables of single benchmarks, as far as there are records of them, and what follows from these."""
    for file, name, pattern, parts in MEASURED:
        if records := read_records(root, pattern):
            pages.put(root / "docs" / file, name, parts(records))
    scaling = root / "docs" / "scaling.md"
    if scaling.exists():
        decoding, streaming = (read_records(root, f"{name}-*") for name in ("decoding", "streaming"))
        pages.put(scaling, "scaling", large_benchmark_cost_table.parts(decoding, streaming))


def beyond_block(pages: "Pages", results: Sequence[Result], averages: Sequence[Result], root: Path) -> None:
    """The strongest recipe on all data sets, and averages of its seeds."""
    page = root / "docs" / "results.md"
    if page.exists() and "<!-- beyond:start -->" in page.read_text(encoding="utf-8"):
        filled = fill_from_records(read_table("beyond"), results)
        pages.put(page, "beyond", beyond_table.parts(filled, averages))


def pretrained_blocks(pages: "Pages", root: Path) -> None:
    """The page on pretrained networks, also before anything is measured; the README only afterwards."""
    records, page = pretrained_table.read(root / RESULTS / "pretrained"), root / "docs" / "pretrained.md"
    if page.exists():
        pages.put(page, "photographs", pretrained_table.photographs(records))
        pages.put(page, "cifar", pretrained_table.cifar(records))
    if any(record["data"] == pretrained_table.README_DATA for record in records):
        pages.put(root / "README.md", "pretrained", pretrained_table.readme(records))


def angular_block(pages: "Pages", tables: Sequence[DatasetTable], root: Path) -> None:
    """The page on methods compares gcl-angular with gcl, which its records of the choice have on the tuning parts."""
    if choices := read_records(root, "choose-second-stage-*"):
        table = angular_table.parts(tables, choices, read_table("table1"))
        pages.put(root / "docs" / "methods.md", "gcl-angular", table)


def read_records(root: Path, pattern: str) -> list[dict[str, Any]]:
    return [read_json(file) for file in sorted((root / RESULTS).glob(f"{pattern}.json"))]


class Pages:
    """Pages with generated blocks: the text around a block is written by hand and stays."""

    def __init__(self) -> None:
        self.texts: dict[Path, str] = {}

    def put(self, path: Path, name: str, parts: Iterable[str]) -> None:
        """Replace what is between the two marks of that name."""
        text = self.texts.get(path) or (path.read_text(encoding="utf-8") if path.exists() else "")
        start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise TailcloudError(f"{path} needs one block from {start} to {end} for the {name}")
        block = "\n".join([start, *parts, end])
        self.texts[path] = re.sub(f"{re.escape(start)}.*{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
