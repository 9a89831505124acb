"""The order of rooms: a room imports only itself, rooms on its own line and rooms on lines above it."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "tailcloud"

ORDER = """
errors formatting files randomness garbage_collection freed_memory cuda_driver flat_copy side_stream csv_cells
confidence_interval
profile
sampling
data/memory data/read_options data/packed_names data/image_io data/file_images data/loaders/decoder_process
data/loaders/decoder_pool data/parallel_io
data/dataset data/splits data/longtail
data/augment data/loaders
data/exif data/readers data/benchmarks data/inspection/duplicates
data
data/inspection
backbones heads losses
weights
classifier
optimizers
evaluation
calibration
objectives head_transforms
recipe
plugins
runs
kernels
training/stages/cost training/stages/factory training/stages/trainable
calibration/run_calibration
training
serving
reporting
auto_recipe
launch
review doctor
bench
estimator
cli
"""
LINES = [line.split() for line in ORDER.strip().splitlines()]
PLACE = {room: place for place, line in enumerate(LINES) for room in line}


def room_of(module):
    """The innermost room of the order that a module such as "data/readers/folder" is in; None for files in none."""
    return next((place for place in [module, *map(str, Path(module).parents)] if place in PLACE), None)


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


def test_every_room_and_file_of_the_order_exists():
    for room in PLACE:
        assert (PACKAGE / room / "__init__.py").exists() or (PACKAGE / f"{room}.py").exists(), room


def test_no_room_imports_a_room_below_it():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        here = room_of(module)
        if here is None:
            assert path.parent == PACKAGE, f"{module} is in no room of the order"
            continue
        for other in imported(path):
            if other != "__init__" and PLACE[room_of(other)] > PLACE[here]:  # "__init__": the version
                wrong.append(f"{module} imports {other}")
    assert wrong == []


def test_the_room_of_the_decoder_imports_nothing_by_itself():
    """A process that reads images passes through it, and should not wait for PyTorch."""
    assert list(imported(PACKAGE / "data" / "loaders" / "__init__.py")) == []
