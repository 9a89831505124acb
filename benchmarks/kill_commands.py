"""Start tailcloud commands as processes of their own, see where they are, and end them; for benchmarks/kills.py.

A command is forked from a process that has imported everything already, or started as from a shell, or by torchrun.
"""

import atexit
import os
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import kill_hooks
from week_of_use import processes_of

LONGEST_GAP = 1.0  # seconds; between two looks at the clock, a longer gap means that this process was stopped
LOOK_SECONDS = 0.002
RANKS = 2
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", str(RANKS))
DECODER, WORKER, TRACKER = "loaders.decoder_process", "multiprocessing.spawn", "resource_tracker"

# The first of these that the stack of a process has, and its name; stages are told apart by the log.
PHASES = (
    ("saving a checkpoint", r"runs/checkpoint\.py.* in save_checkpoint|checkpoint_policy\.py.* in write_checkpoint"),
    ("cache filling", r"loaders/cache\.py.* in (_build|_fill|key_of)"),
    ("embedding", r"training/features/(run_features|embedder|feature_cache)\.py"),
    ("calibration", r"tailcloud/calibration/"),
    ("report", r"tailcloud/reporting/.* in (?!model_card|write_card)"),
    ("export", r"tailcloud/(serving/|cli/export|reporting/card)"),
    ("review page", r"review/server\.py|cli/review\.py.* in serve"),
    ("review", r"tailcloud/(review/|cli/review\.py)"),
    ("result", r"training/(run_result|kept_stage|run_examples)\.py|in finish_stage"),
    ("stage", r"training/loop\.py.* in train_stage"),
    ("start-up", r"<frozen importlib"),
    ("data opening", r"tailcloud/data/|in open_data|launch/run_data\.py"),
    ("preparing the run", r"training/|launch/|tailcloud/recipe/|tailcloud/cli/|distributed/"),
)
END = "end of the command"


class Clock:
    """Seconds in which this process could run: those in which it was stopped by SIGSTOP do not count."""

    def __init__(self) -> None:
        self.seconds, self.last = 0.0, time.monotonic()

    def now(self) -> float:
        """Seconds since this clock was made."""
        now = time.monotonic()
        self.seconds += min(now - self.last, LONGEST_GAP)
        self.last = now
        return self.seconds

    def ticks(self, most: float) -> Iterator[float]:
        """Look again and again, for so many seconds at most; yields the seconds since the first look."""
        started = self.now()
        while (passed := self.now() - started) < most:
            yield passed
            time.sleep(LOOK_SECONDS)


def start(words: Sequence[str], launcher: str, environment: Mapping[str, str], output: Path) -> int:
    """Start ``tailcloud WORDS``, with all it prints in a file; its process number."""
    process = os.fork()
    if process:
        return process
    try:
        with output.open("ab") as file, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(environment)
        if launcher == "forked":
            _run_here(words)
        command = [sys.executable, *(TORCHRUN if launcher == "torchrun" else ()), "-m", "tailcloud", *words]
        os.execv(sys.executable, command)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(99)


def _run_here(words: Sequence[str]) -> None:
    """The command in this process, and its end as Python has it: threads are waited for, exit functions are called."""
    from tailcloud.cli import main

    sys.modules["__main__"] = ModuleType("__main__")  # workers import the main module, which is not this script
    sys.argv, tempfile.tempdir = ["tailcloud", *words], None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kill_hooks.install()
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def ended(process: int) -> int | None:
    """The exit code of a child, negative for a signal; None while it runs."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def children() -> list[int]:
    """The living children of this process; those that have ended are forgotten."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    me = os.getpid()
    return [int(child) for child in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


def wait_for_orphans(clock: Clock, patience: float) -> tuple[float, list[str]]:
    """Wait until nothing that a command started is left: the seconds, and what is left in spite of that."""
    passed = 0.0
    for passed in clock.ticks(patience):
        if not children():
            return passed, []
    left = [f"{process} {command_line(process)[:200]}" for process in everybody()]
    end_everybody()
    return passed, left


def everybody() -> list[int]:
    """All descendants of this process."""
    return [process for child in children() for process in processes_of(child)]


def end_everybody() -> None:
    """Kill everything that this process has started."""
    while alive := everybody():
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def command_line(process: int) -> str:
    """The words of a process."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def targets(target: str, process: int) -> list[list[int]]:
    """Whom a kill can hit now, each as the processes that get the signal."""
    family = list(processes_of(process))
    match target:
        case "decoder":
            return [[one] for one in family if DECODER in command_line(one)]
        case "worker":
            return [[one] for one in family[1:] if WORKER in command_line(one)]
        case "rank":
            return [[one] for one in family[1:] if "tailcloud" in command_line(one)]
        case "terminal":  # Ctrl-C reaches all processes of the group
            return [[one for one in family if group_of(one) == group_of(process)]]
        case _:
            return [[process]]


def group_of(process: int) -> int:
    """The process group; 0 if the process has just ended."""
    with suppress(ProcessLookupError):
        return os.getpgid(process)
    return 0


def signal_all(processes: Sequence[int], number: int) -> None:
    """Send a signal to each."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def phase_of(process: int, hit: Sequence[int], stacks: Path, stage: str) -> str:
    """Where a command is: what the stack of the process that is hit says, or that of a worker or rank."""
    family = list(processes_of(process))
    helpers = [one for one in family[1:] if WORKER in command_line(one) or "-m tailcloud" in command_line(one)]
    order = [*(one for one in hit if one in helpers), *helpers, process]
    stack = next(filter(None, (kill_hooks.stack_of(one, stacks) for one in order)), "")
    other = END if (stacks / str(process)).exists() else "start-up"
    found = next((name for name, pattern in PHASES if re.search(pattern, stack)), other)
    return stage if found == "stage" else found
