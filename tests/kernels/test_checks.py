"""The kernels compute what the plain modules compute: every ``check_*`` file, on the GPU or interpreted on the CPU.

To run some of it by hand: ``TRITON_INTERPRET=1 pytest tests/kernels/check_residual.py -k nan``.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

FILES = sorted(Path(__file__).parent.glob("check_*.py"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="there is no triton on this machine")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem.removeprefix("check_"))
def test_the_kernels_compute_what_the_plain_modules_compute(file):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "0" if torch.cuda.is_available() else "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
