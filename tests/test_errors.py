"""Errors of the system and of PyTorch become sentences."""

import errno

import pytest
import torch

from tailcloud.errors import explained, other_spellings
from tailcloud.runs.folder import RunFolder


def too_much_on_the_cpu():
    torch.empty(1 << 55)


def too_much_for_numpy():
    raise MemoryError


def too_much_for_the_system():
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.parametrize("need", [too_much_on_the_cpu, too_much_for_numpy, too_much_for_the_system])
def test_memory_that_is_not_there_is_a_sentence(need):
    with pytest.raises((RuntimeError, MemoryError, OSError)) as caught:
        need()
    assert str(explained(caught.value)).startswith("not enough memory; end other programs")


def test_other_errors_of_pytorch_stay_unexpected():
    assert explained(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None


def test_a_link_to_itself_is_named(tmp_path):
    link = tmp_path / "loop"
    link.symlink_to(link)
    with pytest.raises((RuntimeError, OSError)) as caught:
        link.resolve(strict=True)
    assert str(explained(caught.value)).startswith(f"{link} is a link that leads back to itself")
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.log_file.symlink_to(folder.log_file)
    with pytest.raises((RuntimeError, OSError)) as caught, folder.locked():
        folder.append_log({})
    assert str(explained(caught.value)).startswith(f"{folder.log_file} is a link that leads back to itself")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Pants", "pants"),
        ("t shirt", "T-Shirt"),
        ("trouser", "trousers"),
        ("class 2", "Class_2"),
        ("class 3", None),
        ("size 1.5", None),
        ("hat", None),
        ("---", None),
    ],
)
def test_the_name_that_is_meant_has_another_spelling(name, meant):
    assert other_spellings([name], ["pants", "T-Shirt", "trousers", "Class_2", "Size 15"]).get(name) == meant


def test_thousands_of_names_are_compared_in_a_moment():
    known = [f"species number {n}" for n in range(8000)]
    assert len(other_spellings([name.upper() for name in known] + ["hat"] * 8000, known)) == 8000
