"""Notes and errors: no control characters reach the terminal, and notes appear above progress bars."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from tailcloud.cli import console


@pytest.mark.parametrize("say", [console.print_error, console.print_note])
def test_control_characters_are_not_printed(say, capsys):
    say("there is no backbone \x1b]0;title\x07\x9b31m[red]\udcff, 4\u00a0known:\nresnet8")
    said = capsys.readouterr().err
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\udcff"}
    assert "[red]" in said
    assert "4\u00a0known:\nresnet8" in said


@pytest.mark.parametrize(
    "say", [console.print_error, console.print_note, lambda text: console.out.print(text, markup=False)]
)
def test_a_ratio_between_colons_is_no_emoji(say, capsys):
    say("cifar10-lt:100:x of the class :cat:")
    printed = capsys.readouterr()
    assert "cifar10-lt:100:x of the class :cat:" in printed.out + printed.err


def test_warnings_of_pillow_about_large_images_are_not_printed():
    warn = "warnings.warn_explicit('Image size (1 pixels) exceeds limit', UserWarning, 'Image.py', 1, 'PIL.Image')"
    words = [sys.executable, "-c", f"import tailcloud.cli, warnings; {warn}"]
    assert subprocess.run(words, capture_output=True, check=True).stderr == b""


NOTES_DURING_TRAINING = """
import logging, sys, time
import tailcloud.cli
from tailcloud.cli.progress import shown_progress
from tailcloud.recipe import load_recipe

stage = load_recipe("digits-lt/ce").stage1
with shown_progress(["one run", "another run"]) as observers:
    for observer in observers:
        observer.stage_started("stage1", stage, 0)
    for epoch in range(1, 5):
        for observer in observers:
            observer.epoch_done({"stage": "stage1", "epoch": epoch, "loss": 0.5, "seconds": 0.1})
        time.sleep(0.15)  # the bars are drawn ten times a second
        observers[0].note(f"note number {epoch}")
        logging.getLogger("tailcloud").warning("logged number %d", epoch)
"""


def screen_of(written):
    """The lines of a terminal after this was written: a small emulator of what rich uses."""
    lines, row, column = [""], 0, 0
    for control, argument, kind, text in re.findall(r"(\x1b\[)([?0-9;]*)([A-Za-z])|([^\x1b]+)", written):
        if control and kind == "A":
            row -= int(argument or 1)
        elif control and kind == "K":
            lines[row] = "" if argument == "2" else lines[row][:column]
        for character in text:
            if character == "\r":
                column = 0
            elif character == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            else:
                lines[row] = lines[row].ljust(column)[:column] + character + lines[row][column + 1 :]
                column += 1
    return [line.rstrip() for line in lines if line.strip()]


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("stderr_in_file", [False, True])
def test_notes_appear_above_the_progress_bars(tmp_path, stderr_in_file):
    import pty

    (tmp_path / "train.py").write_text(textwrap.dedent(NOTES_DURING_TRAINING))
    terminal, side = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    with (tmp_path / "errors.txt").open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env=environment,
            stdout=side,
            stderr=file if stderr_in_file else side,
        )
        os.close(side)
        written = b""
        while True:
            try:
                written += os.read(terminal, 65536)
            except OSError:  # the process has ended
                break
        assert process.wait() == 0
    os.close(terminal)
    notes = [f"note: {what} number {epoch}" for epoch in range(1, 5) for what in ("note", "logged")]
    lines = screen_of(written.decode())
    *above, first_bar, second_bar = lines
    assert first_bar.startswith("one run stage1 ")
    assert second_bar.startswith("another run stage1 ")
    assert above == ([] if stderr_in_file else notes)
    assert (tmp_path / "errors.txt").read_text().splitlines() == (notes if stderr_in_file else [])


@pytest.mark.parametrize(("own", "found"), [(None, "32"), ("4", "4")])
def test_streams_of_a_gpu_have_queues_of_their_own_unless_the_user_says_otherwise(own, found):
    code = "import os, sys, tailcloud.cli; print(os.environ['CUDA_DEVICE_MAX_CONNECTIONS'], 'torch' in sys.modules)"
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_DEVICE_MAX_CONNECTIONS"}
    environment |= {"CUDA_DEVICE_MAX_CONNECTIONS": own} if own else {}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [found, "False"]


@pytest.mark.parametrize(
    ("set_by_user", "expected"),
    [
        ({}, "PASSIVE 1000"),
        ({"GOMP_SPINCOUNT": "7"}, "PASSIVE 7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
    ],
)
def test_threads_wait_as_the_user_says_or_spin_for_a_moment(set_by_user, expected):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names} | set_by_user
    code = f"import os, tailcloud.cli; print(*map(os.environ.get, {names}))"
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == expected.split()
