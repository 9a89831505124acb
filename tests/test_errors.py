"""Errors of the system and of PyTorch become sentences."""

import errno

import pytest
import torch

from tailcloud.errors import explained


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
