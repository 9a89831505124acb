"""The kernels compile for GPUs that this machine need not have, and fit into their shared memory."""

import ast
import json
import os
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import tailcloud

SCRIPT = Path(__file__).with_name("compiling.py")
SHARED = {80: 163, 90: 227}  # KiB that one program may have: A100, H100
SMALLEST = 99  # KiB on the GPUs that people have at home, from sm_86 on
KERNELS = {
    "pack",
    "convolve",
    "pool",
    "unpool",
    "emit",
    "absorb",
    "convolve_back open",
    "convolve_back",
    "weigh",
    "add_partials",
    "assemble",
    "finish",
    "operate",
    "normalise",
}
KERNELS |= {"gluon convolve", "gluon convolve_back"}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="there is no triton on this machine")
def test_the_most_demanding_variant_of_each_kernel_compiles_and_fits(tmp_path):
    """In a process of its own: where kernels are interpreted, none can be compiled."""
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(SCRIPT), "--arch", *map(str, SHARED)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    variants = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["arch"], one["kernel"]) for one in variants} >= {(arch, name) for arch in SHARED for name in KERNELS}
    for one in variants:
        text = f"{one['kernel']} takes {one['shared']} bytes of shared memory on sm_{one['arch']}: {one['sizes']}"
        assert one["shared"] <= SHARED[one["arch"]] * 1024, text
        if one["arch"] < 90 and one["shared"] > SMALLEST * 1024:
            warnings.warn(f"{text}; sm_86 has {SMALLEST} KiB", stacklevel=1)


def jitted_functions():
    """Every function of the package that Triton compiles, as syntax."""
    for path in sorted(Path(tailcloud.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            decorators = map(ast.unparse, node.decorator_list) if isinstance(node, ast.FunctionDef) else ()
            if any(name.startswith(("triton.jit", "gluon.jit")) for name in decorators):
                yield path.name, node


def test_parameters_of_kernels_have_no_defaults():
    """Triton 3.6 does not compile a default text; 3.7 does."""
    functions = list(jitted_functions())
    assert len(functions) > 20
    for file, function in functions:
        assert not function.args.defaults, f"{function.name} in {file} has a default"
        assert not any(function.args.kw_defaults), f"{function.name} in {file} has a default"
