"""One self-contained HTML page for a run, or for a comparison of several.

A report reads ``runs``: of each its ``result`` (made of ``record``), with what it says about ``use`` and ``origin``.
The ``tables`` average over seeds; ``settings`` says which runs share a row. What a ``page`` shows is made HTML by
``rendering``. Its figures are drawn on ``svg``: ``plots`` over classes, ``groups``, ``learning``, ``confusion``,
``calibration`` and ``calibrated``, ``saturation``, ``mistakes`` with their ``examples`` (as ``png``), and ``comparing``
for several runs. Pages of their own are ``embedding`` (with its ``maps``) and ``inspection``; ``card`` is Markdown.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import write_atomically

__all__ = ["page_place", "write_page", "write_report"]

OURS = b'<meta name="generator" content="tailcloud '  # near the beginning of every page


def write_report(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page about one run folder, or the comparison of several, and say where it is.

    Without ``out`` it is report.html: in the run folder, or in the folder that all runs have in common. A page of
    tailcloud is replaced, any other file is left alone and refused.
    """
    from tailcloud.reporting.page import comparison_page, run_page
    from tailcloud.reporting.run_record import read_run

    folders = list({folder.resolve(): folder for folder in runs}.values())
    if not folders:
        raise UsageError("a report needs at least one run folder")
    target = page_place(folders, out)
    read = [read_run(folder) for folder in folders]
    page = run_page(read[0]) if len(read) == 1 else comparison_page(read, target.parent)
    return write_page(target, page)


def page_place(folders: Sequence[Path], out: Path | None, name: str = "report.html") -> Path:
    """Where the page about these runs may be written without destroying anything: ``name``, unless ``out`` says."""
    common = folders[0] if len(folders) == 1 else Path(os.path.commonpath([folder.resolve() for folder in folders]))
    place = out or common
    target = place / name if out is None or place.is_dir() else place
    if target.suffix != ".html":
        raise UsageError(f"the report is an HTML page, and {target} does not end in .html; try --out {target}.html")
    try:
        free = not os.path.lexists(target) or _is_ours(target)
    except OSError as error:
        raise TailcloudError(f"{target} cannot be read: {error.strerror}; choose another file with --out") from None
    if not free:
        raise UsageError(
            f"{target} is there already and is no page of tailcloud; move it away, or choose another file with --out"
        )
    return target


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return OURS in file.read(4096)


def write_page(path: Path, page: str) -> Path:
    """Write a page whole or not at all."""
    try:
        write_atomically(path, page)
    except OSError as error:
        raise TailcloudError(f"the report cannot be written to {path}: {error.strerror}") from None
    return path
