"""The two pages: about one run, and about several side by side."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tailcloud import formatting
from tailcloud.reporting import comparison, tables
from tailcloud.reporting.figures.class_plots import plot_classes, plot_counts, plot_method_classes
from tailcloud.reporting.figures.confusion import frequent_confusions, plot_confusion
from tailcloud.reporting.figures.gradient_curves import plot_gradients, plot_method_gradients
from tailcloud.reporting.figures.learning_curves import plot_accuracy, plot_loss
from tailcloud.reporting.figures.reliability import (
    plot_calibrated,
    plot_method_reliability,
    plot_reliability,
    temperature_sentence,
)
from tailcloud.reporting.figures.shot_groups import plot_groups, plot_methods
from tailcloud.reporting.render import SPLITS, render
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import DatasetTable, MethodRow, by_dataset
from tailcloud.reporting.worst_classes import worst_classes, worst_title
from tailcloud.runs.result import Result


def run_page(run: RunRecord) -> str:
    """The page about one run."""
    result = run.result
    return render(
        "run.html.j2",
        title=f"{result.method} on {result.dataset.spec}, seed {result.protocol.seed}",
        headline=_run_headline(result),
        run=run,
        result=result,
        counts=plot_counts(result),
        curves=[plot_loss(run.log), plot_accuracy(result, run.log)] if run.log else [],
        saturation=plot_gradients(result, run.log),
        classes=plot_classes(result),
        groups=plot_groups(result),
        confusion=plot_confusion(result),
        confusions=frequent_confusions(result),
        reliability=plot_reliability(result),
        calibrated=plot_calibrated(result),
        temperature=temperature_sentence(result.calibrated) if result.calibrated else "",
        worst_title=worst_title(result),
        worst=worst_classes(result, run.examples),
    )


def comparison_page(runs: Sequence[RunRecord], place: Path) -> str:
    """The page that compares several runs, to be written into the folder ``place``: one section for each data set."""
    found = by_dataset([run.result for run in runs])
    headline = _comparison_headline(found, len(runs))
    sections = [
        {
            "table": table,
            "bars": plot_methods(table),
            "classes": plot_method_classes(table),
            "learning": comparison.plot_method_learning(table, runs),
            "reliability": plot_method_reliability(table),
            "saturation": plot_method_gradients(table, runs),
            "notes": _notes(table, runs),
        }
        for table in found
    ]
    links = [(run, _link(run, place)) for run in runs]
    return render("comparison.html.j2", title=headline, headline=headline, links=links, sections=sections)


def _run_headline(result: Result) -> str:
    images = result.dataset.images.get("test")
    on = f" on {formatting.counted(images, 'test image')}" if images else ""
    few = f"; few-shot classes {formatting.percent(result.few)}" if result.group_sizes["few"] else ""
    who = f"{result.method} on {result.dataset.spec}, seed {result.protocol.seed}"
    return f"{who}: {formatting.percent(result.top1.last)} top-1{on}{few}"


def _comparison_headline(found: Sequence[DatasetTable], runs: int) -> str:
    if len(found) > 1:
        specs = len({table.spec for table in found})
        return f"{formatting.counted(runs, 'run')} on {formatting.counted(specs, 'data set')}"
    rows = found[0].rows
    first, leader = rows[0], _leader(rows, "top1")
    top1, few = leader.summary("top1").text(), leader.summary("few")
    verb = "leads" if len(rows) > 1 else "ran"
    ahead = (
        f", {tables.gain(leader, first, 'top1').text(signed=True)} points over {first.label}"
        if leader is not first
        else ""
    )
    tail = f"; few-shot classes {few.text()}\u00a0%" if few.n else ""
    return f"{leader.label} {verb} on {found[0].spec}: {top1}\u00a0% top-1{ahead}{tail}{_otherwise(rows, leader)}"


def _leader(rows: Sequence[MethodRow], metric: str) -> MethodRow:
    return max(rows, key=lambda row: row.summary(metric).mean or 0.0)


def _otherwise(rows: Sequence[MethodRow], leader: MethodRow) -> str:
    """Who leads where classes count alike, if that is another one: test images can be long-tailed too."""
    fairest = _leader(rows, "balanced_accuracy")
    fair, its = (row.summary("balanced_accuracy") for row in (fairest, leader))
    if fairest is leader or fair.mean == its.mean:
        return ""
    return f"; where classes count alike {fairest.label} leads, {fair.text()}\u00a0% against {its.text()}\u00a0%"


def _notes(table: DatasetTable, runs: Sequence[RunRecord]) -> list[str]:
    """What keeps the rows of a table from being plain means over seeds."""
    notes = []
    for row in table.rows:
        members = [run for run in runs if any(run.result is result for result in row.results)]
        differing = _differing_keys(members)
        if differing:
            notes.append(f"The recipes of {row.label} differ in more than the seed: {', '.join(differing)}.")
        if len(row.seeds) < len(row.results):
            notes.append(
                f"{row.label} has {row.runs}; runs of one seed are averaged first, a deviation is over seeds only."
            )
        begun_on = row.results[0].begun_on
        if begun_on:
            notes.append(
                f"The last stage of {row.label} started from an epoch of the stage before that was chosen on "
                f"{SPLITS.get(begun_on, begun_on)}{': its figures are optimistic' if begun_on == 'test' else ''}."
            )
    return [*_same_name(table, runs), *notes, *_unpaired(table.rows)]


def _link(run: RunRecord, place: Path) -> str | None:
    """The way from the page to the run's own, where there is one."""
    page = run.folder.resolve() / "report.html"
    return quote(Path(os.path.relpath(page, place.resolve())).as_posix()) if page.is_file() else None


def _same_name(table: DatasetTable, runs: Sequence[RunRecord]) -> list[str]:
    marks = {run.result.dataset.fingerprint for run in runs if run.result.dataset.spec == table.spec}
    if len(marks) == 1:
        return []
    return [f"The runs on {table.spec} saw {len(marks)} sets of images; this table has those of {table.fingerprint}."]


def _unpaired(rows: Sequence[MethodRow]) -> list[str]:
    apart = [row.label for row in rows[1:] if not tables.paired(row, rows[0])]
    if not apart:
        return []
    return [f"Other seeds than {rows[0].label}: {', '.join(apart)}; these gains are differences of means."]


def _differing_keys(runs: Sequence[RunRecord]) -> list[str]:
    settings = [run.settings() for run in runs]
    keys = sorted({key for one in settings for key in one})
    return [key for key in keys if any(one.get(key) != settings[0].get(key) for one in settings)]
