"""What the command line says cannot steer a terminal, whoever wrote the names in it."""

import subprocess
import sys

import pytest

from tailcloud.cli import console


@pytest.mark.parametrize("say", [console.say_error, console.say_note])
def test_control_characters_of_a_stranger_are_not_passed_on(say, capsys):
    say("there is no backbone \x1b]0;title\x07\x9b31m[red]\udcff, 4\u00a0known:\nresnet8")
    said = capsys.readouterr().err
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\udcff"}
    assert "[red]" in said
    assert "4\u00a0known:\nresnet8" in said


def test_what_pillow_thinks_of_large_pictures_is_said_by_the_verbs_alone():
    warn = "warnings.warn_explicit('Image size (1 pixels) exceeds limit', UserWarning, 'Image.py', 1, 'PIL.Image')"
    words = [sys.executable, "-c", f"import tailcloud.cli, warnings; {warn}"]
    assert subprocess.run(words, capture_output=True, check=True).stderr == b""
