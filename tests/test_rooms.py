"""Every room imports only rooms that stand above it in docs/architecture.md."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailcloud"


def rooms():
    """The rooms of the table, in its order; those of one row may use each other."""
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    named = [re.findall(r"`([a-z_]+)(?:\.py|/)`", row) for row in rows]
    return {room: place for place, row in enumerate(named) for room in row}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tailcloud."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "tailcloud":
            yield from (alias.name for alias in node.names if (PACKAGE / alias.name).exists())


def test_no_room_imports_a_room_below_it():
    order = rooms()
    assert len(order) > 12
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in {"__init__", "__main__"}:
            continue
        for other in imported(path):
            assert order[other] <= order[room], f"{path.relative_to(PACKAGE)} imports {other}"
