"""A working folder, a data folder and a run folder full of modules from strangers: nothing imports them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tailcloud
from helpers.drawing import draw_classes
from helpers.foreign_modules import set_traps, sprung

FAST = "--device cpu --set stage1.epochs=1 --set model.width=0.25 --set data.size=16 --set logging.examples=false"
VERBS = f"""
train own/ce --data photos --out run {FAST} --set data.loader=stream --set engine.workers=1
set traps in run
evaluate run --device cpu
predict run photos --device cpu --out predictions.csv --sort-into sorted --gallery gallery.html
inspect photos --no-plan --html inspection.html
report run
rebalance run --with tau-norm --device cpu
review run --csv suspects.csv --device cpu
export run --to safetensors
data ls
data verify photos
recipes ls
weights ls
watch run
"""
PROGRAM = """
import os, sys
from tailcloud.cli import main
if __name__ == "__main__":
    failed = []
    for line in open(sys.argv[1]):
        if line.startswith("set traps"):
            for name in filter(lambda name: name.endswith(".py"), os.listdir()):
                os.link(name, f"run/{name}")
            continue
        sys.argv = ["tailcloud", *line.split()]
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                failed.append(line)
    sys.exit("".join(failed) or 0)
"""


def run(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(Path(tailcloud.__file__).parents[1]), "XDG_CACHE_HOME": str(folder)}
    environment.pop("PYTHONSAFEPATH", None)
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_no_verb_and_no_process_of_one_imports_a_module_from_the_folders_it_works_in(tmp_path):
    place = tmp_path / "place"
    for folder in (place, place / "photos", place / "photos" / "cat"):
        set_traps(folder)
    draw_classes(place / "photos", {"cat": 12, "dog": 8})
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    (tmp_path / "verbs.txt").write_text(VERBS.lstrip())
    run(place, program, tmp_path / "verbs.txt")
    assert sprung(place) == []


def test_python_m_imports_nothing_from_the_working_folder(tmp_path):
    """As torchrun starts its processes."""
    set_traps(tmp_path)
    assert "digits-lt" in run(tmp_path, "-m", "tailcloud", "recipes", "ls")
    assert sprung(tmp_path) == []


def test_the_traps_are_traps(tmp_path):
    set_traps(tmp_path)
    run(tmp_path, "-c", "import json, multiprocessing, torch")
    assert sprung(tmp_path) == ["json.ran", "multiprocessing.ran", "torch.ran"]
