"""The page of one run, and the page that compares several."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tailcloud import formatting
from tailcloud.reporting import comparison, tables
from tailcloud.reporting.accuracy_intervals import clearly_above, few_differs
from tailcloud.reporting.figures.class_changes import class_changes, plot_changes
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
from tailcloud.reporting.labels import effective_stages, purpose
from tailcloud.reporting.render import render
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.stage_changes import changes_in_words
from tailcloud.reporting.tables import DatasetTable, MethodRow, by_dataset
from tailcloud.reporting.worst_classes import worst_classes, worst_title
from tailcloud.runs.result import Result

CLASSES_IN_LEAD = 5


def run_page(run: RunRecord) -> str:
    """The page about one run."""
    result = run.result
    headline = _run_headline(result)
    return render(
        "run.html.j2",
        title=headline,
        headline=headline,
        run=run,
        result=result,
        stages=effective_stages(result),
        stage_changes=list(changes_in_words(result)),
        apart=formatting.some_of(
            [formatting.shortened(result.names[index], 24) for index in result.order], CLASSES_IN_LEAD
        ),
        counts=plot_counts(result),
        curves=[plot_loss(run.log), plot_accuracy(result, run.log)] if run.log else [],
        saturation=plot_gradients(result, run.log),
        classes=plot_classes(result),
        changes=plot_changes(result),
        change_of={change.index: change for change in class_changes(result)},
        groups=plot_groups(result),
        confusion=plot_confusion(result),
        confusions=frequent_confusions(result),
        reliability=plot_reliability(result),
        calibrated=plot_calibrated(result),
        temperature=temperature_sentence(result.calibrated) if result.calibrated else "",
        worst_title=worst_title(result),
        worst=worst_classes(result, run.examples.worst),
    )


def comparison_page(runs: Sequence[RunRecord], folder: Path) -> str:
    """The page that compares several runs, one section for each data set; ``folder`` is that of the page."""
    data_tables = by_dataset([run.result for run in runs])
    headline = _comparison_headline(data_tables, len(runs))
    sections = [
        {
            "table": table,
            "bars": plot_methods(table),
            "classes": plot_method_classes(table),
            "learning": comparison.plot_method_learning(table, runs),
            "reliability": plot_method_reliability(table),
            "saturation": plot_method_gradients(table, runs),
            "unequal": comparison.unequal_training(table, [run.result for run in runs]),
            "notes": [note for row in table.rows for note in comparison.row_notes(row, runs)] + _unpaired(table.rows),
        }
        for table in data_tables
    ]
    links = [(run, _link(run, folder)) for run in runs]
    return render("comparison.html.j2", title=headline, headline=headline, links=links, sections=sections)


def _run_headline(result: Result) -> str:
    """What the model is for, and how good it is; few-shot classes only if they differ by more than chance."""
    images = result.dataset.images.get("test")
    tested = formatting.counted(images, "test image") if images else "the test images"
    few = f"; {formatting.percent(result.few)} in few-shot classes"
    differs = result.group_sizes["few"] and few_differs(result)
    right = f"{formatting.percent(result.top1.last)} of {tested} classified correctly"
    return f"{purpose(result)}: {right}{few if differs else ''}"


def _comparison_headline(data_tables: Sequence[DatasetTable], runs: int) -> str:
    """Which method leads, if it does by more than chance, as ``accuracy_intervals`` says."""
    if len(data_tables) > 1:
        specs = len({table.spec for table in data_tables})
        return f"{formatting.counted(runs, 'run')} on {formatting.counted(specs, 'data set')}"
    table = data_tables[0]
    rows = table.rows
    first, leader = rows[0], _leader(rows, "top1")
    top1, few = leader.summary("top1").text(), leader.summary("few")
    tied = [row for row in rows if row is not leader and not clearly_above(table, leader, row, "top1")]
    if tied:
        return f"{_tie_headline(table, [leader, *tied])}{_balanced_leader(table, leader)}"
    verb = " leads" if len(rows) > 1 else ""
    gain = tables.gain(leader, first, "top1").text(signed=True)
    ahead = f", {gain} points over {first.label}" if leader is not first else ""
    tail = f"; {few.text()}\u00a0% in few-shot classes" if few.n else ""
    balanced = _balanced_leader(table, leader)
    return f"{leader.label}{verb} on {table.spec}: {top1}\u00a0% top-1 accuracy{ahead}{tail}{balanced}"


def _tie_headline(table: DatasetTable, tied: Sequence[MethodRow]) -> str:
    """Several methods have the highest accuracy, as far as these test images and seeds can tell."""
    means = [mean for row in tied if (mean := row.summary("top1").mean) is not None]
    names = " and ".join([", ".join(row.label for row in tied[:-1]), tied[-1].label])
    between = " to ".join(formatting.number(mean) for mean in (min(means), max(means))) if means else "n/a"
    return f"No clear leader on {table.spec}: {names} have {between}\u00a0% top-1 accuracy, a difference within chance"


def _leader(rows: Sequence[MethodRow], metric: str) -> MethodRow:
    return max(rows, key=lambda row: row.summary(metric).mean or 0.0)


def _balanced_leader(table: DatasetTable, leader: MethodRow) -> str:
    """Which method has the highest balanced accuracy, if it is another one: test images can be long-tailed too."""
    best = _leader(table.rows, "balanced_accuracy")
    if best is leader or not clearly_above(table, best, leader, "balanced_accuracy"):
        return ""
    highest, other = (row.summary("balanced_accuracy").text() for row in (best, leader))
    return f"; {best.label} leads in balanced accuracy, {highest}\u00a0% against {other}\u00a0% of {leader.label}"


def _link(run: RunRecord, folder: Path) -> str | None:
    """The relative link from the page to the run's own page; None if it has no page."""
    page = run.folder.resolve() / "report.html"
    return quote(Path(os.path.relpath(page, folder.resolve())).as_posix()) if page.is_file() else None


def _unpaired(rows: Sequence[MethodRow]) -> list[str]:
    unpaired = [row.label for row in rows[1:] if not tables.paired(row, rows[0])]
    if not unpaired:
        return []
    return [f"Other seeds than {rows[0].label}: {', '.join(unpaired)}; their gains are differences of means."]
