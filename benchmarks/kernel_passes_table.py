"""The table of ``kernel_passes.py`` for the docs."""

from collections.abc import Iterator
from typing import Any

from tailcloud.reporting.tables import markdown

COLUMNS = ("alone", "of 8", "of 16", "evaluation")


def parts(record: dict[str, Any]) -> Iterator[str]:
    """Microseconds per run of forward and backward, and of an evaluation."""
    header = ["kernels", "one run", "8 runs, each", "16 runs, each", f"evaluation of {record['evaluated']:,} images"]
    rows = [[row["kernels"], *(f"{row[column]:,.0f}" for column in COLUMNS)] for row in record["rows"]]
    yield markdown(header, rows)
    machine = record["machine"]
    origin = f"{machine['gpu']}, torch {machine['torch']}, commit `{record['commit']}`"
    yield f"\nMicroseconds for forward and backward with {record['images']} images. Measured on {origin}.\n"
