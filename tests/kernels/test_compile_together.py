"""Kernels that are not on disk are compiled by processes; whatever happens to these, the result is the same."""

import gc
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="there is no triton on this machine")

from triton import knobs
from triton.runtime import driver

from helpers.fake_gpu import FakeGpu
from helpers.small_kernels import double, impossible
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.kernels import CannotFuse
from tailcloud.kernels import compile_together as together
from tailcloud.kernels.compile_together import compile_in_threads, compile_together
from tailcloud.kernels.launch import launch
from tailcloud.kernels.residual import REGISTERS, FusedChain, FusedResNet

pytestmark = pytest.mark.skipif(knobs.runtime.interpret, reason="kernels are interpreted, not compiled")
SIZES = [16, 32, 64, 128, 256, 512]
FIRST_DIES = """
import os, socket, sys
socket.socket(fileno=int(sys.argv[5])).recv(1 << 20)
os._exit(9)
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """Two cores, a GPU, and nothing on disk; at the end no process is left."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", FakeGpu())
    monkeypatch.setattr(together, "automatic_workers", lambda: 2)
    before = children()
    yield
    assert children() <= before


@pytest.fixture
def compiled(monkeypatch):
    """For each kernel that this process asked for, whether it had to compile it."""
    noted = []
    listener = lambda *, src, cache_hit, **_: noted.append((src.name, not cache_hit))  # noqa: E731
    monkeypatch.setattr(knobs.compilation, "listener", listener)
    monkeypatch.setattr(together, "is_new", lambda work: (work(), noted[-1][1])[1])
    return noted


def children():
    found = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended since
            found |= set(file.read_text().split())
    return found


def work(kernel=double, sizes=SIZES):
    """Compilations as those of the depthwise convolutions."""
    values = torch.empty(2048, device="meta")
    return [partial(launch, kernel, (1,), values, BLOCK=size) for size in sizes]


def test_processes_compile_all_but_the_first(compiled):
    compile_together(work())
    assert sorted(compiled) == [("double", False)] * 5 + [("double", True)]


def test_processes_compile_the_kernels_of_a_network(compiled, monkeypatch):
    """In both of Triton's languages, with all options of a launch."""
    monkeypatch.setattr(driver, "_active", FakeGpu(90))
    monkeypatch.setattr(FusedChain, "early", {"EARLY": True, "launch_pdl": True})
    model = build_classifier(Architecture("resnet8", "cosine", 1.0, 3, 5), 0).to(memory_format=torch.channels_last)
    every = FusedResNet(model.backbone, 8, 8).compilations(REGISTERS)
    one_each = {each.func.__self__: each for each in every}
    compile_together([each for kernel, each in one_each.items() if kernel.fn.__name__ != "convolve_back"])
    assert any(kernel.is_gluon() for kernel in one_each)
    assert [new for _, new in compiled] == [True] + [False] * (len(compiled) - 1)


def test_nothing_is_started_for_what_is_on_disk(monkeypatch):
    compile_together(work())
    monkeypatch.setattr(driver, "_active", FakeGpu())
    monkeypatch.setattr(together, "fill_cache", lambda _: pytest.fail("all of it is on disk"))
    assert not any(together.is_new(each) for each in work())
    monkeypatch.setattr(driver, "_active", FakeGpu())
    compile_together(work())


def test_nothing_is_collected_while_threads_parse():
    """Python 3.11 has a parser that fails in one thread if another parses in a collection of the first."""
    collecting = []
    compile_in_threads([lambda: collecting.append(gc.isenabled())] * 3)
    assert collecting == [False] * 3
    assert gc.isenabled()


def test_what_is_missing_after_others_is_new():
    compile_together(work(sizes=SIZES[:2]))
    assert [together.is_new(each) for each in work(sizes=SIZES[:3])] == [False, False, True]


@pytest.mark.parametrize(("cores", "kernels"), [(1, 6), (2, 3)])
def test_few_kernels_or_cores_need_no_process(compiled, monkeypatch, cores, kernels):
    monkeypatch.setattr(together, "automatic_workers", lambda: cores)
    monkeypatch.setattr(together, "compilers", lambda *_: pytest.fail("processes are started"))
    compile_together(work(sizes=SIZES[:kernels]))
    assert compiled == [("double", True)] * kernels


def test_a_kernel_that_does_not_compile_says_why(compiled):
    with pytest.raises(CannotFuse) as alone:
        compile_together(work(impossible, SIZES[:1]))
    with pytest.raises(CannotFuse, match="no such luck") as caught:
        compile_together([*work(), *work(impossible)])
    assert str(caught.value) == str(alone.value)
    assert compiled.count(("double", True)) == 1


@pytest.mark.parametrize("start", ["raise SystemExit(1)", FIRST_DIES], ids=["at once", "with a kernel"])
def test_processes_that_die_leave_their_kernels_to_this_one(compiled, monkeypatch, start):
    monkeypatch.setattr(together, "START", start)
    compile_together(work())
    assert compiled == [("double", True)] * 6


def test_processes_that_do_not_end_are_left_out(compiled, monkeypatch):
    monkeypatch.setattr(together, "START", "import time; time.sleep(60)")
    monkeypatch.setattr(together, "PATIENCE", 0.1)
    compile_together(work())
    assert compiled == [("double", True)] * 6


def test_without_processes_this_one_compiles(compiled, monkeypatch):
    monkeypatch.setattr(together.sys, "executable", "/no/python")
    compile_together(work())
    assert compiled == [("double", True)] * 6


def test_a_process_ends_with_its_parent():
    double.warmup(torch.float32, BLOCK=16, grid=(1,))
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, together.compilers(1, theirs) as [process]:
        process.stdin.close()  # as it is when this process is killed
        assert process.wait(20) == 1


def test_what_other_threads_launch_meanwhile_is_compiled():
    first, second = work(sizes=SIZES[:2])
    with ThreadPoolExecutor(1) as pool:
        jobs = together.jobs_of(lambda: (first(), pool.submit(second).result()))
    assert len(jobs) == 1
    assert not together.is_new(second)
    assert together.is_new(first)


def test_modules_with_kernels_import_no_pytorch():
    """A process that compiles would wait for it."""
    files = Path(together.__file__).parent.glob("*.py")
    names = [file.stem for file in files if re.search(r"^@(triton|gluon)\.jit", file.read_text(), re.MULTILINE)]
    assert len(names) == 7
    wanted = "".join(f"import tailcloud.kernels.{name}\n" for name in names)
    start = together.START.partition("from tailcloud")[0] + wanted
    command = [sys.executable, "-P", "-c", start, together.json.dumps(sys.path), str(Path(together.__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr


def test_runs_side_by_side_compile_once(compiled):
    """The threads of a fleet start with the same network at the same time."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_together, [work(), work()]))
    assert len(compiled) == len(SIZES)
