"""The record of benchmarks/finetune_cpu.py as a table for docs/performance.md."""

from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown


def parts(record: dict[str, Any]) -> list[str]:
    """Seconds of a step, and how many times as long it takes without each of the optimisations."""
    now, *others = max((row["seconds"] for row in record["rows"]), key=len)
    header = ["what is trained", "seconds a step", *others]
    machine = record["machine"]
    origin = f"{machine['processor']}, {record['cores']} cores, torch {machine['torch']}, commit `{record['commit']}`"
    steps = f"{record['batch']} images a step, medians of {record['repeats']} measurements in turn"
    rows = [line(row["row"], row["seconds"], now, others) for row in record["rows"]]
    return [markdown(header, rows), "", f"- {steps}; {origin}"]


def line(name: str, seconds: dict[str, float], now: str, others: list[str]) -> list[str]:
    """A row of the table; a way that makes no difference there is not measured."""
    times = [f"× {number(seconds[way] / seconds[now], 2)}" if way in seconds else "–" for way in others]
    return [name, number(seconds[now], 2), *times]
