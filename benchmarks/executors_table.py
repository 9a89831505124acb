"""The records of benchmarks/executors.py as tables for docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import magnitude, number
from tailcloud.reporting.tables import markdown

SPEED = ("stage", "executor", "ms a step", "set-up, s", "of which CPU time")
DIFFERENCES = ("", "stage", "numbers", "executor", "same bits", "loss", "parameters", "momentum", "statistics")


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """For every record: what was measured where, speed, and differences to the eager executor."""
    lines = []
    for record in records:
        lines.append(origin(record))
        if speed := record.get("speed"):
            lines += ["", markdown(SPEED, map(speed_row, speed)), "", pays(record)]
        if found := record.get("differences"):
            lines += ["", ABOUT_DIFFERENCES, "", markdown(DIFFERENCES, map(difference_row, found))]
        lines.append("")
    return lines[:-1]


ABOUT_DIFFERENCES = (
    "The largest difference to the eager executor, relative to the largest value of its tensor; "
    "(float64) is the eager executor in float64, which shows the size of rounding."
)


def origin(record: dict[str, Any]) -> str:
    about = record["machine"]
    place = about["gpu"] or f"{about['processor']}, one thread"
    images = "random images" if record["data"] == "random" else record["data"]
    return (
        f"**{record['method']} for {record['recipe']}, on {images}**, {magnitude(record['step_flops'])}FLOP a step; "
        f"{place}, torch {about['torch']}, commit `{record['commit']}`."
    )


def speed_row(row: dict[str, Any]) -> list[str]:
    if "failed" in row:
        return [row["stage"], row["executor"], f"failed: {row['failed']}", "", ""]
    figures = [number(1000 * row["step"], 2), number(row["ready"]), number(row["ready_processor"])]
    return [row["stage"], row["executor"], *figures]


def pays(record: dict[str, Any]) -> str:
    """From where on compiling the first stage pays, if it does."""
    flops: float | None = record.get("pays_from_flops")
    if flops is None:
        return "Compiling makes no step of stage 1 faster."
    return f"Compiling stage 1 pays from {magnitude(flops)}FLOP on: {flops / record['step_flops']:,.0f} steps."


def difference_row(row: dict[str, Any]) -> list[str]:
    where = [row["name"], row["stage"], f"{row['precision']}, {row['kernels']} kernels", row["executor"]]
    if "failed" in row:
        return [*where, f"failed: {row['failed']}", "", "", "", ""]
    apart = [f"{row[kind]['relative']:.0e}" for kind in ("loss", "parameters", "momentum", "statistics")]
    return [*where, "yes" if row["same_bits"] else "no", *apart]
