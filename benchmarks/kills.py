"""Kill tailcloud a thousand times, anywhere: is a run lost, a file cut, a process left behind, or a bit changed?

    python benchmarks/kills.py --scratch FOLDER                      until there are 1,000 kills, then the record
    python benchmarks/kills.py --scratch FOLDER --kills 10 --only digits --write kills.json

A chain is a scenario (``kill_scenarios``): commands that are killed at random moments and started again, with
``--resume`` where there is a run, until they end by themselves. What happened is appended to FOLDER/*.jsonl; a second
start goes on there, and SIGTERM ends the chains that have begun without further kills and writes the record. Half of
the moments are drawn evenly over the time that a command takes undisturbed, half soon after a file appeared or an epoch
was logged, so that short phases get their share.

After every kill: every file under a final name is whole, and nobody is left behind. After SIGTERM and Ctrl-C: no
temporary file either. At the end of a chain: the same files, weights and logs as without kills; no lock, process,
temporary file or shared memory. Time in which this process is stopped (SIGSTOP) does not count.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import kill_checks
import kill_commands
import kill_disks
import kill_hooks
from kill_commands import Clock
from kill_scenarios import SCENARIOS, Place, Scenario, Step, draw_photos
from measurement import RESULTS, write_record
from week_of_use import processes_of

from tailcloud.files import write_atomically
from tailcloud.training.devices import commit, pick_device

UNKNOWN = "unknown"  # the commit of a tree without git
SHARED_MEMORY = Path("/dev/shm")
KILLS, LANES = 1000, 2
PATIENCE = 600.0  # seconds until a command must have ended by itself
ORPHAN_PATIENCE = 60.0
SOON = 0.12  # seconds after a mark
AGAIN = 0.15  # share of SIGTERMs that SIGKILL follows soon
BY_MARK = 0.7  # share of kills after a mark
NEXT_MARKS = 4  # one of so many that come next
HARMED = 0.7  # share of kills before which a disk fails that can
EXPECTED = {"SIGKILL": {-9, 0}, "SIGTERM": {143, -15, 0}, "SIGINT": {130, -2, 0}}
LOG = "log.jsonl"
HELPERS = {"decoder", "worker"}  # a command survives their deaths, or says why not
LEFT_WITH_REASON = 1  # the exit code of a sentence
TORCHRUN_LOGS = "torchelastic_"  # a folder that torchrun leaves after every command
CLICKS = 2  # decisions of a review that nobody kills
HEAVY = (
    "sklearn.datasets", "torch._dynamo", "torch.export", "torch.distributed", "tailcloud.cli.progress",
    "tailcloud.launch.run_plan", "tailcloud.reporting", "tailcloud.training.loop", "tailcloud.serving.export",
    "tailcloud.review.review", "tailcloud.review.server", "jinja2", "pydantic.type_adapter", "typer._adapters",
    "rich._emoji_codes", "PIL.PngImagePlugin", "PIL.JpegImagePlugin", "PIL.GifImagePlugin",
)  # fmt: skip


@dataclass
class Life:
    """A command from its start to its end."""

    code: int = 0
    seconds: float = 0.0
    output: str = ""
    kills: list[dict[str, Any]] = field(default_factory=list)  # several if a helper was hit and the command went on
    harmed: bool = False
    left: list[str] = field(default_factory=list)  # temporary files that were not there before
    problems: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the command ended as it should."""
        return self.code == 0

    @property
    def last(self) -> dict[str, Any]:
        """The last kill; empty without any."""
        return self.kills[-1] if self.kills else {}


@dataclass
class Plan:
    """When a command is killed: after so many seconds, or so many seconds after a mark is reached."""

    number: str
    target: str
    seconds: float
    reached: Callable[[], bool] | None = None
    mark: str = ""
    harm_before: float | None = None  # the disk fails so many seconds earlier
    then_kill: float | None = None  # SIGKILL so many seconds later
    follows: bool = False  # it is that SIGKILL


class Clicker(threading.Thread):
    """Decides about items of a review page, one after the other, until the page is gone."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.token = url, url.rstrip("/").rpartition("/")[2]
        self.decided: set[int] = set()  # items whose decision was confirmed
        self.start()

    def run(self) -> None:
        """Decide."""
        with suppress(OSError, ValueError):
            items = json.loads(self.ask("state", None))["items"]
            for turn in range(100_000):
                place = turn % len(items)
                body = {"item": place, "image": items[place]["image"], "action": ("keep", "drop")[turn % 2]}
                self.ask("decide", json.dumps(body).encode())
                self.decided.add(place)
                time.sleep(0.02)

    def ask(self, what: str, body: bytes | None) -> bytes:
        """A request of the page."""
        request = urllib.request.Request(self.url + what, body, {"X-Tailcloud-Token": self.token})
        with urllib.request.urlopen(request, timeout=10) as answer:
            content: bytes = answer.read()
        return content


class Chain:
    """One scenario with one seed, in a folder of its own."""

    def __init__(self, name: str, seed: int, folder: Path, photos: Path, clock: Clock) -> None:
        self.name, self.seed, self.folder, self.clock = name, seed, folder, clock
        self.scenario: Scenario = SCENARIOS[name]
        self.chance = random.Random(seed)
        for inside in ("stacks", "tmp"):
            (folder / inside).mkdir(parents=True)
        self.disk = kill_disks.DISKS[self.scenario.disk](folder / "home")
        self.place = Place(folder / "home", photos)
        self.kills: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.slowest_end = 0.0
        self.lives = self.harms = 0

    @property
    def environment(self) -> dict[str, str]:
        """Of every command."""
        paths = [str(self.folder.parent / "site"), *filter(None, sys.path)]
        return {
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": str(self.folder / "tmp"),
            "TAILCLOUD_CACHE": str(self.place.home / "own-cache"),
            "OMP_NUM_THREADS": "1",
            kill_hooks.STACKS: str(self.folder / "stacks"),
            **self.disk.environment,
        }

    def run(self, durations: dict[str, float] | None, allowed: Callable[[], bool]) -> dict[str, float]:
        """All steps to their ends; with ``durations`` of the undisturbed ones, with kills while they are ``allowed``.

        Returns:
            The duration of the last life of each step.
        """
        found = {}
        for step in self.scenario.steps:
            most = len(self.kills) + (self.chance.randint(*step.kills) if durations else 0)
            shortest = durations[step.name] if durations else 0.0

            def plan(step: Step = step, most: int = most, shortest: float = shortest) -> Plan | None:
                return self.plan(step, shortest) if len(self.kills) < most and allowed() else None

            while True:
                life = self.live(step, plan)
                self.check(step, life)
                if life.finished or self.problems or step.is_done(self.place):
                    break
            found[step.name] = life.seconds
            if self.problems:
                break
        return found

    def plan(self, step: Step, duration: float) -> Plan:
        """Draw a kill of a command that takes so many seconds undisturbed."""
        chance = self.chance
        target, signals = chance.choice(self.scenario.hits)
        number = chance.choice([each for each in signals if each != "SIGINT" or not step.served])  # it ends a review
        plan = Plan(number, target, chance.uniform(0, duration))
        marks = self.marks(step)
        if marks and chance.random() < BY_MARK:
            plan.mark, plan.reached = chance.choice(marks[:NEXT_MARKS])
            plan.seconds = chance.uniform(0, SOON)
        if self.disk.fails and chance.random() < HARMED:
            plan.harm_before = chance.uniform(0, chance.choice([SOON, SOON, duration]))
            plan.seconds += plan.harm_before
        if number == "SIGTERM" and chance.random() < AGAIN:
            plan.then_kill = chance.uniform(0, 0.3)
        return plan

    def marks(self, step: Step) -> list[tuple[str, Callable[[], bool]]]:
        """Moments that are still to come, in their order."""
        epochs = range(1, sum(self.scenario.epochs) + 1) if step.name == "train" else ()
        logged = [(f"epoch {epoch}", partial(self.has_logged, epoch)) for epoch in epochs]
        early, late = ([(mark, partial(self.has, mark)) for mark in marks] for marks in (step.marks, step.late_marks))
        return [(mark, seen) for mark, seen in (*early, *logged, *late) if not seen()]

    def has(self, mark: str) -> bool:
        """Whether a file is there."""
        with suppress(OSError):  # a folder was removed meanwhile
            return any(self.place.home.glob(mark))
        return False

    def has_logged(self, epoch: int) -> bool:
        """Whether a log has so many epochs."""
        return self.logged() >= epoch

    def logged(self) -> int:
        """The most epochs that a log has."""
        lines = [0]
        for log in (self.place.run / LOG, *self.place.home.glob(f"runs/*/{LOG}")):
            with suppress(OSError):
                lines.append(log.read_bytes().count(b"\n"))
        return max(lines)

    def stage(self) -> str:
        """The stage of which the next epoch is."""
        return "stage 1" if self.logged() < self.scenario.epochs[0] else "stage 2"

    def live(self, step: Step, draw: Callable[[], Plan | None]) -> Life:
        """Start a command, kill it as planned, and wait until everything that it started has ended."""
        output = self.folder / "output.txt"
        words = step.words(self.place)
        with output.open("a") as file:
            file.write(f"\n$ tailcloud {' '.join(words)}\n")
        begin = output.stat().st_size
        self.lives += 1
        before, started = {*kill_checks.temporary_files(self.place.home)}, self.clock.now()
        process = kill_commands.start(words, self.scenario.launcher, self.environment, output)
        life = self.watch(step, draw, process, partial(_served, output, begin) if step.served else lambda: None)
        life.seconds = self.clock.now() - started
        passed, left = kill_commands.wait_for_orphans(self.clock, ORPHAN_PATIENCE)
        self.slowest_end = max(self.slowest_end, passed)
        life.problems += [f"left behind: {one}" for one in left]
        life.output = output.read_bytes()[begin:].decode(errors="replace")
        if life.finished and life.kills and life.last["target"] not in HELPERS:  # it came too late to be one
            self.kills.remove(life.kills.pop())
        life.left = [file for file in kill_checks.temporary_files(self.place.home) if file not in before]
        for stack in (self.folder / "stacks").iterdir():
            stack.unlink()
        if life.harmed:
            self.disk.heal()
        return life

    def watch(
        self, step: Step, draw: Callable[[], Plan | None], process: int, served: Callable[[], str | None]
    ) -> Life:
        """Look at a command until it ends; harm the disk, kill, and click meanwhile."""
        life, clicker, plan, since, leaving = Life(), None, draw(), 0.0, False
        for passed in self.clock.ticks(PATIENCE):
            code = kill_commands.ended(process)
            if code is not None:
                life.code = code
                break
            if plan and plan.reached:
                plan.reached, since = (None, passed) if plan.reached() else (plan.reached, passed)
            if plan and not plan.reached:
                life.harmed = life.harmed or self.harm(plan, passed - since)
                if passed - since >= plan.seconds and (kill := self.kill(step, plan, process, passed)):
                    life.kills.append(kill)
                    since, plan = passed, self.next_plan(plan, draw)
            if clicker is None and (url := served()):
                clicker = Clicker(url)
            if clicker and plan is None and not (life.kills or leaving) and len(clicker.decided) >= CLICKS:
                leaving = True
                kill_commands.signal_all([process], signal.SIGINT)  # the way to end a review
        else:
            life.problems.append(f"it did not end within {PATIENCE:.0f} s: {self.stacks(process)}")
            kill_commands.end_everybody()
            life.code = -9
        if clicker:
            clicker.join()
            life.problems += self.check_decisions(clicker)
        return life

    def harm(self, plan: Plan, passed: float) -> bool:
        """Let the disk fail, if it is time to; whether it was."""
        if plan.harm_before is None or passed < plan.seconds - plan.harm_before:
            return False
        plan.harm_before = None
        self.harms += 1
        self.disk.harm(self.chance)
        return True

    def next_plan(self, plan: Plan, draw: Callable[[], Plan | None]) -> Plan | None:
        """What comes after a kill: SIGKILL, if SIGTERM takes too long; another kill, if a helper was hit."""
        if plan.then_kill is not None:
            return Plan("SIGKILL", plan.target, plan.then_kill, follows=True)
        return draw() if plan.target in HELPERS else None

    def kill(self, step: Step, plan: Plan, process: int, passed: float) -> dict[str, Any] | None:
        """Send the signal, if whoever is to be hit is there; None otherwise."""
        there = kill_commands.targets(plan.target, process)
        if not there:
            return None
        hit = self.chance.choice(there)
        phase = kill_commands.phase_of(process, hit, self.folder / "stacks", self.stage())
        kill_commands.signal_all(hit, signal.Signals[plan.number])
        about = {"scenario": self.name, "seed": self.seed, "step": step.name, "signal": plan.number}
        found = {"target": plan.target, "phase": phase, "seconds": round(passed, 3), "mark": plan.mark}
        if plan.follows:
            found["follows"] = "SIGTERM"
        self.kills.append({"kind": "kill", **about, **found, "launcher": self.scenario.launcher})
        return self.kills[-1]

    def stacks(self, process: int) -> str:
        """Where a command and its helpers are."""
        family = list(processes_of(process))
        return "\n".join(kill_hooks.stack_of(one, self.folder / "stacks") for one in family)

    def check(self, step: Step, life: Life) -> None:
        """What must be true after every life."""
        problems = [*life.problems, *kill_checks.broken_files(self.place.home)]
        expected = self.expected(life)
        if life.code not in expected:
            problems.append(f"{step.name} ended with {life.code}, expected one of {sorted(expected)}")
        torchrun = self.scenario.launcher == "torchrun"
        if life.code == LEFT_WITH_REASON and not torchrun and "error: " not in life.output:
            problems.append("it ended with 1 and without a sentence")
        if "Traceback" in life.output and not torchrun and life.last.get("phase") != "start-up":
            problems.append("it printed a traceback")
        if life.kills and not life.harmed and self.ends_cleanly(life):
            problems += [f"a temporary file is left after {life.last['signal']}: {file}" for file in life.left]
        for kill in life.kills:
            kill["code"] = life.code
        self.problems += [f"{problem}\n{life.kills}\n{life.output[-4000:]}" for problem in problems]

    def expected(self, life: Life) -> set[int]:
        """The exit codes that a life may have."""
        expected = {0, LEFT_WITH_REASON} if life.harmed else {0}
        for kill in life.kills:
            expected |= {LEFT_WITH_REASON} if kill["target"] in HELPERS else EXPECTED[kill["signal"]]
        if life.kills and self.scenario.launcher == "torchrun":
            expected |= {LEFT_WITH_REASON, 130, 143, *range(-15, 0)}
        return expected

    def ends_cleanly(self, life: Life) -> bool:
        """Whether a command had the time to remove what it had begun to write."""
        at_ease = all(kill["signal"] != "SIGKILL" for kill in life.kills)
        return at_ease and self.scenario.launcher != "torchrun" and life.code >= 0

    def check_decisions(self, clicker: Clicker) -> list[str]:
        """Every decision that the page confirmed is saved."""
        if not clicker.decided:
            return []
        record = json.loads((self.place.run / "review.json").read_text())
        saved = len(record["decisions"])
        lost = len(clicker.decided) - saved
        return [f"{lost} of {len(clicker.decided)} confirmed decisions are lost"] if lost > 0 else []

    def check_end(self, expected: dict[str, Any] | None) -> dict[str, Any]:
        """What must be true when all steps are done; ``expected`` is from the chain without kills."""
        found = kill_checks.fingerprint(self.place.home)
        if expected:
            self.problems += kill_checks.differences(found, expected)
        self.problems += [f"is left: {file}" for file in kill_checks.temporary_files(self.folder)]
        left = [file for file in (self.folder / "tmp").iterdir() if not file.name.startswith(TORCHRUN_LOGS)]
        self.problems += [f"is left: {file}" for file in left]
        self.problems += [f"is locked: {file}" for file in kill_checks.held_locks(self.place.home)]
        return found

    def remove(self) -> None:
        """Remove the folder of this chain."""
        self.disk.remove()
        shutil.rmtree(self.folder)


def _served(output: Path, begin: int) -> str | None:
    """The address of the page, once it is printed."""
    found = re.search(rb"review: (http\S+)\s", output.read_bytes()[begin:])
    return found[1].decode() if found else None


class Lane:
    """Chains one after the other, in one process; each lane has scenarios, seeds, a log and mounts of its own."""

    def __init__(self, number: int, lanes: int, scratch: Path, names: Sequence[str], kills: int) -> None:
        self.number, self.lanes, self.scratch, self.most = number, lanes, scratch, kills
        self.names = list(names)[number::lanes]
        self.log, self.folder = scratch / f"lane{number}.jsonl", scratch / f"lane{number}"
        self.clock, self.stopping = Clock(), False
        self.commit = commit() or UNKNOWN
        self.code = code_of(self.commit)
        shutil.rmtree(self.folder / "chain", ignore_errors=True)
        (self.folder / "site").mkdir(parents=True, exist_ok=True)
        (self.folder / "site" / "sitecustomize.py").write_text(kill_hooks.SITE)
        self.references: dict[str, dict[str, Any]] = {}
        self.shared_memory = {*SHARED_MEMORY.iterdir()}

    def run(self) -> None:
        """Chains until there are enough kills, or until SIGTERM."""
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)
        kill_disks.adopt_orphans()
        if not kill_disks.own_mounts():
            self.names = [name for name in self.names if not kill_disks.DISKS[SCENARIOS[name].disk].fails]
        self.shared_memory = {*SHARED_MEMORY.iterdir()}
        before = with_code(read_lines([self.log]), self.code)
        seeds = [line["seed"] for line in read_lines([self.log]) if "seed" in line]
        chains = max(seeds, default=self.number - self.lanes) // self.lanes + 1
        done = Counter(line["scenario"] for line in before if line["kind"] == "kill")
        while self.names and not self.stopping and self.all_kills() < self.most:
            name = min(self.names, key=lambda name: (done[name] + 1) / SCENARIOS[name].share)
            seed = chains * self.lanes + self.number
            chains += 1
            try:
                done[name] += self.chain(name, seed)
            except Exception:
                self.write({"kind": "error", "scenario": name, "seed": seed, "text": traceback.format_exc()})
                kill_commands.end_everybody()
                done[name] += 1

    def all_kills(self) -> int:
        """The kills of all lanes, with the code as it is now."""
        lines = read_lines(self.scratch.glob("lane*.jsonl"))
        return sum(line["kind"] == "kill" for line in with_code(lines, self.code))

    def stop(self, *_: Any) -> None:
        """The chain that has begun is ended without further kills."""
        self.stopping = True

    def chain(self, name: str, seed: int) -> int:
        """A chain, with what it starts from; returns the number of its kills."""
        reference = self.reference(name)
        chain = self.begin(name, seed)
        started = self.clock.now()
        durations = chain.run(reference["durations"], lambda: not self.stopping)
        for step, seconds in durations.items():  # the machine may be busier at times
            reference["durations"][step] = (seconds + reference["durations"][step]) / 2
        if not chain.problems:
            chain.check_end(reference["end"])
            chain.problems += [
                f"shared memory is left: {one}" for one in {*SHARED_MEMORY.iterdir()} - self.shared_memory
            ]
        for kill in chain.kills:
            self.write(kill)
        about = {"kills": len(chain.kills), "lives": chain.lives, "disk_failures": chain.harms}
        times = {"seconds": round(self.clock.now() - started, 1), "slowest_end": round(chain.slowest_end, 2)}
        self.write({"kind": "chain", "scenario": name, "seed": seed, **about, **times, "problems": chain.problems})
        self.end(chain)
        return len(chain.kills)

    def reference(self, name: str) -> dict[str, Any]:
        """The same scenario without kills: how long its steps take, and what it ends with."""
        if name not in self.references:
            kept = self.folder / "finished" / self.code / name
            file = kept.with_suffix(".json")
            if not file.exists():
                self.write_reference(name, kept, file)
            self.references[name] = {**json.loads(file.read_text()), "kept": kept}
        return self.references[name]

    def write_reference(self, name: str, kept: Path, file: Path) -> None:
        """Run a scenario without kills, and keep what it ends with."""
        chain = self.begin(name, 0)
        durations = chain.run(None, lambda: False)
        end = chain.check_end(None)
        if chain.problems:
            raise RuntimeError(f"{name} fails without kills: {chain.problems}")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(chain.place.home, kept)
        write_atomically(file, json.dumps({"durations": durations, "end": end}))
        self.write({"kind": "reference", "scenario": name, "durations": durations, "sha256": end["sha256"]})
        self.end(chain)

    def begin(self, name: str, seed: int) -> Chain:
        """A chain in a new folder. All chains of a lane have the same one: paths are in some of the files."""
        prepared = SCENARIOS[name].prepared
        start = self.reference(prepared)["kept"] if prepared else None
        place = self.folder / "chain"
        shutil.rmtree(place, ignore_errors=True)
        chain = Chain(name, seed, place, self.scratch / "photos", self.clock)
        if start:
            shutil.copytree(start, chain.place.home, dirs_exist_ok=True)
        return chain

    def end(self, chain: Chain) -> None:
        """Forget a chain; one that failed is kept."""
        if chain.problems:
            place = self.scratch / "failures" / f"{chain.name.replace(' ', '-')}-{chain.seed}-{int(time.time())}"
            shutil.copytree(chain.folder, place)
        chain.remove()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line to the log."""
        with self.log.open("a") as file:
            file.write(json.dumps({**line, "lane": self.number, "commit": self.commit}) + "\n")


def read_lines(files: Iterable[Path]) -> list[dict[str, Any]]:
    """The lines of all lanes."""
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


@cache
def code_of(commit: str) -> str:
    """The content of src at a commit: a commit that changes nothing there is the same code."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--verify", "-q", f"{commit}:./../src"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or commit


def with_code(lines: Iterable[dict[str, Any]], code: str) -> list[dict[str, Any]]:
    """The lines about that code, without chains that were declared void: the script was wrong, not tailcloud."""
    lines = list(lines)
    void = {(line["lane"], line["seed"]) for line in lines if line["kind"] == "void"}
    valid = [line for line in lines if (line["lane"], line.get("seed")) not in void]
    return [line for line in valid if code_of(line["commit"]) == code]


def summary(lines: Sequence[dict[str, Any]], now: str) -> dict[str, Any]:
    """The record: what the code of a commit was through, how often and where, and what was found before it."""
    own = with_code(lines, code_of(now))
    chains = [line for line in own if line["kind"] == "chain"]
    kills = [line for line in own if line["kind"] == "kill"]
    earlier = [line for line in lines if code_of(line["commit"]) != code_of(now)]
    keys = ("scenario", "phase", "signal", "target")
    counts = Counter(tuple(kill[key] for key in keys) for kill in kills)
    return {
        "kills": len(kills),
        "chains": len(chains),
        "commands": sum(chain["lives"] for chain in chains),
        "disk_failures": sum(chain["disk_failures"] for chain in chains),
        "failures": sum(bool(chain["problems"]) for chain in chains),
        "problems": [{key: one[key] for key in ("scenario", "seed", "problems")} for one in chains if one["problems"]],
        "errors_of_the_script": sum(line["kind"] == "error" for line in own),
        "void": [{key: line[key] for key in ("scenario", "seed", "why")} for line in lines if line["kind"] == "void"],
        "slowest_end_seconds": max((chain["slowest_end"] for chain in chains), default=0.0),
        "by_shell": sum(kill["launcher"] != "forked" for kill in kills),
        "scenarios": {
            name: {
                "about": SCENARIOS[name].about,
                "chains": sum(chain["scenario"] == name for chain in chains),
                "kills": sum(kill["scenario"] == name for kill in kills),
                "seeds": sorted(chain["seed"] for chain in chains if chain["scenario"] == name),
            }
            for name in SCENARIOS
        },
        "counts": [dict(zip(keys, key, strict=True)) | {"kills": count} for key, count in sorted(counts.items())],
        "before_the_last_mending": {
            "kills": sum(line["kind"] == "kill" for line in earlier),
            "chains": sum(line["kind"] == "chain" for line in earlier),
            "failures": sum(line["kind"] == "chain" and bool(line["problems"]) for line in earlier),
            "found": [
                {key: line[key] for key in ("scenario", "seed", "commit")}
                | {"problems": [problem.partition("\n")[0] for problem in line["problems"]]}
                for line in earlier
                if line["kind"] == "chain" and line["problems"]
            ],
        },
    }


def campaign(scratch: Path, kills: int, names: Sequence[str], lanes: int) -> dict[str, Any]:
    """Run all lanes to their ends, and summarise them."""
    scratch.mkdir(parents=True, exist_ok=True)
    draw_photos(scratch / "photos")
    for module in HEAVY:
        __import__(module)
    import torch

    torch.set_num_threads(1)
    started = {}
    for number in range(lanes):
        process = os.fork()
        if not process:
            code = 1
            try:
                Lane(number, lanes, scratch, names, kills).run()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        started[process] = number

    def stop(*_: Any) -> None:
        for process in started:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for process in list(started):
        os.waitpid(process, 0)
        del started[process]
    return summary(read_lines(sorted(scratch.glob("lane*.jsonl"))), commit() or UNKNOWN)


def main() -> None:
    """Kill, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="where everything happens, and is logged")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="SCENARIO")
    parser.add_argument("--lanes", type=int, default=LANES, help="chains at a time")
    parser.add_argument("--write", type=Path, default=RESULTS / "kills.json")
    words = parser.parse_args()
    record = campaign(words.scratch.resolve(), words.kills, words.only, words.lanes)
    write_record(words.write, record, pick_device("cpu"))
    print({key: record[key] for key in ("kills", "chains", "failures", "errors_of_the_script")})


if __name__ == "__main__":
    main()
