"""One self-contained HTML page for a run, a comparison, embeddings, a data set or predictions.

``run_record`` reads a finished run, with its ``example_images``. ``page`` builds the page of a run and that of a
comparison, ``embedding_page``, ``inspection_page`` and ``gallery_page`` the others, and ``card`` the model card in
Markdown; ``render`` fills the templates. ``tables`` averages over seeds, and ``row_settings`` decides which runs share
a row. ``comparison_table`` writes a comparison as CSV, Markdown or LaTeX. ``comparison``, ``worst_classes`` and
``provenance`` (machine, versions, commit) prepare parts of a page, ``figures`` draws its charts, ``image_uri`` embeds
images, and ``labels`` has texts that pages share.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import refuse_single_path, write_atomically

__all__ = ["report_path", "write_page", "write_report"]

GENERATOR_TAG = b'<meta name="generator" content="tailcloud '  # near the top of every page


def write_report(runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of one run folder, or the comparison of several, and return its path.

    Without ``out`` it is report.html in the run folder, or in the folder that all runs have in common. If ``out`` ends
    in .csv, .md or .tex, the table of the comparison is written instead of a page. An earlier report is replaced; any
    other file is an error.
    """
    from tailcloud.reporting.comparison_table import MARKS, comparison_table
    from tailcloud.reporting.page import comparison_page, run_page
    from tailcloud.reporting.run_record import read_run

    refuse_single_path("runs", runs)
    folders = list({folder.resolve(): folder for folder in map(Path, runs)}.values())
    if not folders:
        raise UsageError("a report needs at least one run folder")
    target = report_path(folders, None if out is None else Path(out), tables=MARKS)
    records = [read_run(folder) for folder in folders]
    if target.suffix in MARKS:
        return write_page(target, comparison_table(records, target.suffix))
    page = run_page(records[0]) if len(records) == 1 else comparison_page(records, target.parent)
    return write_page(target, page)


def report_path(
    folders: Sequence[Path],
    out: Path | None,
    name: str = "report.html",
    *,
    option: str = "--out",
    tables: Mapping[str, str] | None = None,
) -> Path:
    """The path of the page about these runs: ``out``, or ``name`` in their folder. Raises if another file is there.

    ``option`` is what the user types before ``out``; ``tables`` are other endings that it may have, each with what such
    a file begins with.
    """
    tables = tables or {}
    common = folders[0] if len(folders) == 1 else Path(os.path.commonpath([folder.resolve() for folder in folders]))
    chosen = out or common
    target = chosen / name if out is None or chosen.is_dir() else chosen
    if target.suffix != ".html" and target.suffix not in tables:
        raise UsageError(f"{_wrong_ending(target, list(tables))}; try {option} {target}.html")
    try:
        free = not os.path.lexists(target) or _is_report(target, tables.get(target.suffix))
    except OSError as error:
        raise TailcloudError(f"{target} cannot be read: {error.strerror}; choose another file with {option}") from None
    if not free:
        raise UsageError(
            f"{target} exists and is not a report of tailcloud; move it, or choose another file with {option}"
        )
    return target


def _wrong_ending(target: Path, tables: Sequence[str]) -> str:
    if not tables:
        return f"the report is an HTML page, and {target} does not end in .html"
    others = f"{', '.join(tables[:-1])} or {tables[-1]}"
    return f"the report is an HTML page or a table, and {target} ends neither in .html nor in {others}"


def _is_report(path: Path, begins_with: str | None) -> bool:
    """Whether a file is a report: a page, or a table that begins with this text."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    return GENERATOR_TAG in head if begins_with is None else head.startswith(begins_with.encode())


def write_page(path: Path, page: str) -> Path:
    """Write a page, or a table, completely or not at all."""
    try:
        write_atomically(path, page)
    except OSError as error:
        raise TailcloudError(f"the report cannot be written to {path}: {error.strerror}") from None
    return path
