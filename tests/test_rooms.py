"""Every room imports only rooms that stand above it in docs/architecture.md; files are named there or at the door."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailcloud"
DATA = sorted(path.parent for path in (PACKAGE / "data").rglob("__init__.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def rows():
    """The rows of the table: which rooms, and what lives there."""
    table = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Rooms\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (`[^|]+) \| (.*) \|$", table, re.MULTILINE)
    return [(re.findall(r"`([a-z_/]+?)(?:\.py|/)`", names), text) for names, text in found]


def rooms():
    """The rooms of the table, in its order; those of one row may use each other."""
    return {room: place for place, (row, _) in enumerate(rows()) for room in row}


def room_of(module, order):
    """The innermost room of the table that a module such as "data/own/lists" is in; None for files in none."""
    above = [module, *map(str, Path(module).parents)]
    return next((place for place in above if place in order), None)


def imported(path):
    """The modules of ours that a file imports, "data/__init__" for a name that the package itself offers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and re.match(r"tailcloud\b", node.module or ""):
            yield from (module_of(f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if re.match(r"tailcloud\b", alias.name))
            yield from (module_of(name) for name in ours)


def module_of(name):
    """The file that has what a dotted name means, as its place below the package."""
    place = PACKAGE.joinpath(*name.split(".")[1:])
    while not place.is_dir() and not place.with_suffix(".py").exists():
        place = place.parent
    return (place / "__init__" if place.is_dir() else place).relative_to(PACKAGE).as_posix()


def signed(room):
    """The names at the door of a room."""
    return set(re.findall(r"``(\w+)``", ast.get_docstring(ast.parse((room / "__init__.py").read_text()))))


def test_no_room_imports_a_room_below_it():
    order = rooms()
    assert len(order) > 18
    for path in PACKAGE.rglob("*.py"):
        here = room_of(path.relative_to(PACKAGE).with_suffix("").as_posix(), order)
        if here is None:
            assert path.parent == PACKAGE, f"{path.relative_to(PACKAGE)} is in no room of the table"
            continue
        for module in imported(path):
            if module != "__init__":  # the version
                assert order[room_of(module, order)] <= order[here], f"{path.relative_to(PACKAGE)} imports {module}"


@pytest.mark.parametrize("room", DATA, ids=lambda room: room.name)
def test_every_room_of_data_is_in_the_table_and_names_its_files_at_the_door(room):
    assert room.relative_to(PACKAGE).as_posix() in rooms()
    inside = {path.stem for path in room.glob("*.py")} | {path.parent.name for path in room.glob("*/__init__.py")}
    assert sorted(inside - {"__init__"} - signed(room)) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_file_is_named_in_the_table_at_the_door_or_in_the_dictionary_of_its_room(room):
    door = room / "__init__.py"
    text = " ".join(text for row, text in rows() if room.name in row)
    named = {*re.findall(r"`(\w+)`", text), *signed(room), *(Path(module).stem for module in imported(door))}
    assert sorted({path.stem for path in room.glob("*.py")} - {"__init__"} - named) == []


def test_the_room_of_the_decoder_imports_nothing_by_itself():
    """A process that reads images passes through it, and should not wait for PyTorch."""
    assert list(imported(PACKAGE / "data" / "planes" / "__init__.py")) == []
