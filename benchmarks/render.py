"""Write docs/results.md and .html, and the figures in README.md, other pages and the recipes, from benchmarks/results.

python benchmarks/render.py                  write them
python benchmarks/render.py --add RUN...     take the results of these run folders first
python benchmarks/render.py --check          exit 1 if the files are not what would be written
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import angular_table
import calibration_table
import choice_table
import choosing_table
import conclusions
import executors_table
import guide_table
import larger_table
import scaling_table
import speed_table
import streaming_table

from tailcloud.bench import TABLES, FilledTable, read_table
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.filled_table import TOLERANCE
from tailcloud.bench.records import fill_from_records, table_variant
from tailcloud.bench.table_text import MARK, markdown_sections
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import read_json, write_atomically, write_json
from tailcloud.formatting import counted, number
from tailcloud.profile import FEW_BELOW, MANY_ABOVE
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
IN_README = (BASELINE, OURS, "gcl-official")
SHORT = ("seeds", "top1", "many", "medium", "few", "ece", "parameters", "flops")

Parts = Callable[[Sequence[dict[str, Any]]], Iterable[str]]
MEASURED: tuple[tuple[str, str, Parts], ...] = (  # a page, a block in it that is named as its records are, its content
    ("choosing.md", "choosing", choosing_table.parts),
    ("executors.md", "executors", executors_table.parts),
    ("methods.md", "choose-second-stage", choice_table.parts),
    ("larger.md", "larger", larger_table.parts),
    ("larger.md", "samplers", larger_table.samplers),
    ("streaming.md", "streaming", streaming_table.parts),
    ("predict.md", HELD_OUT, calibration_table.parts),
)


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

    A run with held-out images was trained on fewer than the others: it is kept apart, for the page on calibration.
    """
    file = run / "result.json"
    content = read_json(file)
    result = parse_result(content, str(file))
    name = record_name(result)
    write_json(root / (RESULTS / f"{HELD_OUT}-{name}" if result.protocol.split else RUNS / name), content)


def render(root: Path) -> dict[Path, str]:
    """What each generated file should hold."""
    results = read_results(root / RUNS)
    tables = with_variants(results)
    paper = [fill_from_records(read_table(name), results) for name in TABLES]
    readme, recipes = root / "README.md", root / "src" / "tailcloud" / "recipes"
    performance, records = root / "docs" / "performance.md", performance_records(root / RESULTS)
    guide = root / "docs" / "guide.md"
    return {
        root / "docs" / "results.md": results_page(tables, paper),
        root / "docs" / "tables.html": bench_page(paper),
        readme: readme_with(readme, tables),
        **({guide: with_block(guide, page(guide), "guide", guide_table.parts(tables))} if guide.exists() else {}),
        **({performance: performance_with(performance, records)} if records else {}),
        **with_angular(measured_pages(root / "docs", root / RESULTS), tables, root),
        **scaling_page(root / "docs" / "scaling.md", root / RESULTS),
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
    """A recipe whose second line says what it was measured to give."""
    text = path.read_text(encoding="utf-8")
    recipe, lines = tomllib.loads(text), text.splitlines(keepends=True)
    rows = [row for table in tables if table.spec == recipe["data"] for row in table.rows]
    row = next((row for row in rows if row.method == recipe["method"]), None)
    said = 2 if lines[1].startswith("#") else 1  # a new recipe does not say anything yet
    return "".join([lines[0], f"# {expectation(row)}\n", *lines[said:]])


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


def results_page(tables: Sequence[DatasetTable], paper: Sequence[FilledTable]) -> str:
    head = (
        "# Results\n\n"
        "<!-- written by benchmarks/render.py from benchmarks/results/runs; do not edit -->\n\n"
        "Mean ± sample standard deviation over seeds, in percent, of the last epoch. The best epoch has a column of\n"
        "its own that says on which split it was chosen: chosen on the test set, it is optimistic. Groups by training\n"
        f"images of a class: many has more than {MANY_ABOVE}, few fewer than {FEW_BELOW}, medium lies between.\n"
        "The runs of one command train side by side; the seconds of a run are wall-clock, with the others beside it.\n"
        "The paper's tables come first ([how they are filled](bench.md); [as one page](tables.html)), then every\n"
        f"data set with everything that was measured on it. {MARK}: more than {TOLERANCE:g} point below the published\n"
        "number, which is the paper's unless another source is named.\n"
    )
    return "\n".join([head, *map(paper_section, paper), *(dataset_section(table) for table in tables)])


def paper_section(filled: FilledTable) -> str:
    """A table of the paper, measured beside published, and which of the paper's conclusions hold."""
    said = [*markdown_sections(filled), *conclusions.parts(filled)]
    return "\n".join([f"## {filled.table.title}\n", f"{filled.table.about}\n", *said])


def dataset_section(table: DatasetTable) -> str:
    lines = [
        f"## {table.spec}\n",
        method_table(table, COLUMNS),
        "",
        *gain_sentences(table),
        *own_settings(table),
        *facts(table),
        '\n<details markdown="1"><summary>Made by</summary>\n',
        "```sh",
        *distinct(results_of(table), lambda result: result.command),
        "```\n",
        "</details>\n",
    ]
    return "\n".join(lines)


def method_table(table: DatasetTable, columns: Iterable[str]) -> str:
    chosen = list(columns)
    return markdown([COLUMNS[column] for column in chosen], [cells(row, chosen) for row in table.rows])


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
    """In a sentence, where the recorded recipes differ from their method's own settings."""
    changed = {row.label: changes(row.results[0]) for row in table.rows}
    common = [one for one in changes(table.example) if len(changed) > 1 and all(one in own for own in changed.values())]
    changed = {"all": common} | {label: [one for one in own if one not in common] for label, own in changed.items()}
    said = [f"{label} here: {', '.join(settings)}" for label, settings in changed.items() if settings]
    return [f"Settings that differ from the method's own: {'; '.join(said)}.\n"] if said else []


def changes(result: Result) -> list[str]:
    """stage1.mixup = 0.4 instead of 1.0, for every such field; none where the recipe or the method is unknown.

    A record may be older than some options: resolved again, it has them at their defaults, as it was run.
    """
    try:
        own = resolve({"method": result.method}).substance()
        used = resolve(dict(result.recipe)).substance() if result.recipe else own
    except UsageError:
        return []
    found = differences(own, used)
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


def readme_with(path: Path, tables: Sequence[DatasetTable]) -> str:
    """The README with one table over all data sets: the baseline and GCL, in the way they are computed by default."""
    rows = [
        [f"{table.spec} `{table.fingerprint}`", row.method, *cells(row, SHORT)]
        for table in tables
        for row in usual(table)
        if row.method in IN_README
    ]
    header = ["data, and the fingerprint of its images", "method", *(COLUMNS[column] for column in SHORT)]
    gains = [f"{table.spec}: {sentence}" for table in tables for sentence in gain_sentences(table)]
    note = (
        "Last epoch, in percent, mean ± standard deviation over seeds; FLOPs of one image forward.\n"
        "More, with machines and commands, in [docs/results.md](docs/results.md)."
    )
    return with_block(path, page(path), "results", [markdown(header, rows), "", *gains, note])


def usual(table: DatasetTable) -> list[MethodRow]:
    """The first row of each method."""
    return list({row.method: row for row in reversed(table.rows)}.values())[::-1]


def performance_records(folder: Path) -> dict[str, Path]:
    """What was measured of time and memory, by the name of its place in docs/performance.md."""
    files = {name: folder / f"{name}.json" for name in PERFORMANCE}
    return {name: file for name, file in files.items() if file.exists()}


def performance_with(path: Path, records: dict[str, Path]) -> str:
    """The page on performance with the tables of benchmarks/speed.py, scale.py and long_list.py in it."""
    text = page(path)
    for name, file in records.items():
        text = with_block(path, text, name, PERFORMANCE[name](read_json(file)))
    return text


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


def long_list_parts(record: dict[str, Any]) -> list[str]:
    """What opening a long list takes, step by step."""
    about = record["machine"]
    origin = f"{about['processor']}, one thread, torch {about['torch']}, commit `{record['commit']}`"
    size = f"{record['list_bytes'] / 1e6:,.0f} MB"
    what = f"A list of {record['images']:,} images of {record['classes']:,} classes: {size}."
    header = ["", "seconds", "MB at most so far"]
    rows = [[each["step"], number(each["seconds"]), number(each["peak_bytes"] / 1e6, 0)] for each in record["steps"]]
    return [f"Measured on {origin}. {what}\n", markdown(header, rows)]


def measured_pages(docs: Path, results: Path) -> dict[Path, str]:
    """The pages with tables of records in them, as far as there are such records."""
    pages: dict[Path, str] = {}
    for file, name, parts in MEASURED:
        path, records = docs / file, sorted(results.glob(f"{name}-*.json"))
        if records:
            text = pages.get(path, page(path))
            pages[path] = with_block(path, text, name, parts(list(map(read_json, records))))
    return pages


def with_angular(pages: dict[Path, str], tables: Sequence[DatasetTable], root: Path) -> dict[Path, str]:
    """The page on methods compares gcl-angular with gcl, which its records of the choice have on the tuning parts."""
    methods = root / "docs" / "methods.md"
    if methods not in pages:
        return pages
    choices = [read_json(file) for file in sorted((root / RESULTS).glob("choose-second-stage-*.json"))]
    table = angular_table.parts(tables, choices, read_table("table1"))
    return {**pages, methods: with_block(methods, pages[methods], "gcl-angular", table)}


def scaling_page(path: Path, results: Path) -> dict[Path, str]:
    """The page on large benchmarks: what can be said with the records that there are."""
    if not path.exists():
        return {}
    decoding, streaming = (
        [read_json(file) for file in sorted(results.glob(f"{name}-*.json"))] for name in ("decoding", "streaming")
    )
    return {path: with_block(path, page(path), "scaling", scaling_table.parts(decoding, streaming))}


def page(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


PERFORMANCE = {
    "speed-cpu": speed_table.parts,
    "speed-cuda": speed_table.parts,
    "ablation-cpu": speed_table.changes,
    "scale-cpu": scale_parts,
    "long-list-cpu": long_list_parts,
}


def with_block(path: Path, text: str, name: str, parts: Iterable[str]) -> str:
    """The text of a page with a new content between the two marks of that name."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise TailcloudError(f"{path} needs one block from {start} to {end} for the {name}")
    block = "\n".join([start, *parts, end])
    return re.sub(f"{re.escape(start)}.*{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
