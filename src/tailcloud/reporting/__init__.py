"""One self-contained HTML page for a run, or for a comparison of several."""

import os
from collections.abc import Sequence
from pathlib import Path

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import write_atomically

__all__ = ["write_report"]


def write_report(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page about one run folder, or the comparison of several, and say where it is.

    Without ``out`` it is report.html: in the run folder, or in the folder that all runs have in common.
    """
    from tailcloud.reporting.page import comparison_page, run_page
    from tailcloud.reporting.runs import read_run

    folders = list({folder.resolve(): folder for folder in runs}.values())
    if not folders:
        raise UsageError("a report needs at least one run folder")
    read = [read_run(folder) for folder in folders]
    page = run_page(read[0]) if len(read) == 1 else comparison_page(read)
    target = out or Path(os.path.commonpath([folder.resolve() for folder in folders])) / "report.html"
    return _write(target / "report.html" if target.is_dir() else target, page)


def _write(path: Path, page: str) -> Path:
    try:
        write_atomically(path, page)
    except OSError as error:
        raise TailcloudError(f"the report cannot be written to {path}: {error.strerror}") from None
    return path
