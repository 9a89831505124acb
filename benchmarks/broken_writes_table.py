"""The record of benchmarks/broken_writes.py as a table for docs/robustness.md."""

from typing import Any

from tailcloud.formatting import counted
from tailcloud.reporting.tables import markdown

WORDS = {
    "train": "`tailcloud train`, two stages, with checkpoints and report",
    "resume": "`tailcloud train --resume`",
    "rebalance": "`tailcloud rebalance`, with a cache of features",
    "images": "`tailcloud train` from files, with `data.cache`",
    "report": "`tailcloud report`",
    "evaluate": "`tailcloud evaluate`",
    "export safetensors": "`tailcloud export --to safetensors`",
    "export onnx": "`tailcloud export --to onnx`",
    "export card": "`tailcloud export --to card`",
    "predict": "`tailcloud predict --out`",
    "sort": "`tailcloud predict --sort-into --gallery`",
    "review": "`tailcloud review --csv`",
    "inspect": "`tailcloud inspect --html`",
    "recipe": "`tailcloud recipes copy`",
    "verify": "`tailcloud data verify --report`",
}
COUNTED = ("cases", "sentence", "went on", "killed", "then same bytes", "then sentence")
HEADER = (
    "command",
    "calls",
    "cases",
    "a sentence",
    "went on",
    "killed",
    "then the same bytes",
    "then a sentence",
    "wrong",
)


def parts(record: dict[str, Any]) -> list[str]:
    """A row for each command, and where it was measured."""
    about, rows = record["machine"], record["parts"]
    cases = counted(sum(part.get("cases", 0) for part in rows), "case")
    commits = dict.fromkeys(f"`{part.get('commit', record['commit'])}`" for part in rows)
    origin = f"{about['processor']}, torch {about['torch']}, commit {', '.join(commits)}"
    return [markdown(HEADER, map(row, rows)), "", f"{cases} on {origin}."]


def row(part: dict[str, Any]) -> list[str]:
    return [
        WORDS[part["part"]],
        str(part["calls"]),
        *(str(part.get(key, 0)) for key in COUNTED),
        str(len(part["defects"])),
    ]
