"""Break every write of every verb once: does it end in a sentence, is nothing half-written, and does it go on after?

    python benchmarks/broken_writes.py                                            the record under benchmarks/results
    python benchmarks/broken_writes.py --part train --fault full --write train.json      one command and fault
    python benchmarks/broken_writes.py --join train.json others.json                     one record of several

Each part is a command. It runs undisturbed first, while ``FaultyDisk`` counts the calls that write. Then, for each of
these calls and each fault, it runs again in a fresh copy of its folder, and that one call fails. What must hold:

    it ends well, or with one sentence and a non-zero status, and not later than after ten minutes;
    every file is as it was at some moment of the undisturbed command, or has a temporary name;
    temporary files are removed, where the disk lets one remove them;
    the same command (train --resume, if a run was started) then ends with the same bytes as the undisturbed one, or,
    where a file would have to be replaced, with one sentence that says so.

The clock stands still, so that seconds in results are the same. Each command is a fork of a process that has imported
everything, which takes well under a second.
"""

import argparse
import contextlib
import errno
import importlib
import io
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import typer.main
from faulty_disk import Fault, FaultyDisk, canonical, digest
from measurement import RESULTS, write_record
from PIL import Image

import tailcloud.training.run_result  # noqa: F401
from tailcloud.cli import app
from tailcloud.cli import main as tailcloud_main
from tailcloud.files import TEMPORARY, read_json, write_json
from tailcloud.reporting import render

FAULTS = {
    "full": Fault(errno.ENOSPC, lasts=True),
    "read-only": Fault(errno.EROFS, lasts=True),
    "failing once": Fault(errno.EIO),
    "killed": Fault(0),
}
SECONDS = 600  # after which a command hangs
SETTINGS = (
    "model.width=0.25 stage1.epochs=2 stage2.epochs=1 stage1.batch=128 stage2.batch=128 engine.checkpoint_seconds=0 "
    "engine.threads=1 selection.split=0.1"
)
SMALL = " ".join(f"--set {setting}" for setting in SETTINGS.split())
STREAMED = (
    "--set model.backbone=resnet8 --set model.width=0.25 --set stage1.epochs=1 --set stage1.batch=16 "
    "--set data.size=16 --set data.loader=stream --set engine.workers=1 --set engine.threads=1 "
    "--set engine.checkpoint_seconds=0 --set data.cache=images"
)
TRAIN = f"train digits-lt/gcl --device cpu --out run {SMALL}"
OWN = f"train own/ce --data ../photos --device cpu --out run {STREAMED}"
LISTS = ("log.jsonl", "predictions.csv")  # files that grow line by line under their names
COUNTED = ("sentence", "went on", "killed", "then same bytes", "then sentence")
LONG = ("command", "faults", "kinds", "sentences", "defects")
OPTIONAL = ("cache/",)  # a command goes on without its cache of features


@dataclass(frozen=True)
class Part:
    """A command, and what it needs.

    Args:
        words: of the command line.
        start: the part whose outcome is in the folder; None for an empty folder.
        without: files of it that are not.
        run: the run folder, if the command starts or continues one.
        refuses: whether the command may refuse to replace a file that it has written before.
        again: removed before the command is repeated, as its sentence advises.
        needless: how files begin that only one of two ways to the same result leaves: a run without the first stage of
            another one trains it, and keeps a checkpoint more.
        reported: a call whose input/output error is taken for that of an image, which cannot be told apart: the image
            is listed as unreadable, and the files are complete, but others.
    """

    words: str
    start: str | None = None
    without: tuple[str, ...] = ()
    run: str | None = None
    refuses: bool = False
    again: str | None = None
    needless: tuple[str, ...] = ()
    reported: str | None = None


PARTS = {
    "train": Part(TRAIN, run="run"),
    "resume": Part(
        "train --resume --out run",
        start="train",
        without=("result.json", "report.html", "model.*", "examples.*", "checkpoint/stage2*"),
        run="run",
    ),
    "rebalance": Part(
        "rebalance run --with crt --out new --set stage2.epochs=1 --set stage2.views=4",
        start="train",
        run="new",
        needless=("new/checkpoint/stage1-",),
    ),
    "images": Part(OWN, run="run"),
    "report": Part("report run", start="train", without=("report.html",)),
    "evaluate": Part("evaluate run", start="train"),
    "export safetensors": Part("export run --to safetensors", start="train", refuses=True),
    "export onnx": Part("export run --to onnx", start="train", refuses=True),
    "export card": Part("export run --to card", start="train", refuses=True),
    "predict": Part("predict run ../photos --out predictions.csv", start="images", refuses=True),
    "sort": Part(
        "predict run ../few --sort-into sorted --gallery gallery.html",
        start="images",
        again="sorted",
        reported="sendfile",
    ),
    "review": Part("review run --csv suspects.csv", start="images", refuses=True),
    "inspect": Part("inspect ../photos --no-plan --html page.html"),
    "recipe": Part("recipes copy digits-lt/gcl mine.toml", refuses=True),
    "verify": Part("data verify ../broken --report broken.csv"),
}


@dataclass
class Outcome:
    """How a command ended: its status (None: it hung), what it said, and what the disk saw."""

    status: int | None
    said: str
    calls: list[tuple[str, str]] = field(default_factory=list)
    states: dict[str, set[str]] = field(default_factory=dict)
    broken: tuple[str, str] | None = None

    @property
    def sentences(self) -> list[str]:
        """The errors that it printed."""
        return [line for line in self.said.splitlines() if line.startswith("error: ")]

    def defects(self) -> list[str]:
        """What is wrong with the way it ended."""
        if self.status is None:
            return ["it hung"]
        found = []
        if "Traceback" in self.said or "should not have happened" in self.said:
            found.append(f"not a sentence: {self.said[-300:]!r}")
        elif self.status < 0:
            found.append(f"it died of signal {-self.status}")
        elif self.status and len(self.sentences) != 1:
            found.append(f"{len(self.sentences)} sentences: {self.said[-300:]!r}")
        return found


class OneMoment:
    """A datetime that is always the same."""

    @staticmethod
    def now(zone: Any) -> Any:
        """The moment at which all runs end."""
        from datetime import datetime

        return datetime(2026, 1, 1, tzinfo=zone)


class Bench:
    """Runs commands in ``home/case``, each in a process of its own, and remembers how the undisturbed ones ended."""

    def __init__(self, home: Path) -> None:
        self.home, self.case, self.scratch = home, home / "case", home / "scratch"
        self.scratch.mkdir()
        draw_photos(home / "photos")
        shutil.copytree(home / "photos", home / "broken")
        draw_photos(home / "few", numbers=(1, 20))
        (home / "broken" / "cat" / "0.png").write_bytes(b"")
        self.undisturbed: dict[str, Outcome] = {}
        self.unseen = 0

    def prepare(self, name: str) -> None:
        """A fresh folder for a part."""
        shutil.rmtree(self.case, ignore_errors=True)
        start = PARTS[name].start
        if start is None:
            self.case.mkdir()
        else:
            shutil.copytree(self.home / f"{start} done", self.case, symlinks=True)
        for pattern in PARTS[name].without:
            for path in self.case.glob(f"run/{pattern}"):
                path.unlink()

    def reference(self, name: str) -> Outcome:
        """The undisturbed command, whose outcome is kept."""
        if name in self.undisturbed:
            return self.undisturbed[name]
        if (start := PARTS[name].start) is not None:
            self.reference(start)
        self.prepare(name)
        before = tree(self.case)
        done = self.command(PARTS[name].words, FaultyDisk(self.case))
        expected = 1 if name == "verify" else 0  # which finds a broken file
        if done.status != expected:
            raise SystemExit(f"{name} ends with {done.status} without a fault: {done.said}")
        shutil.copytree(self.case, self.home / f"{name} done", symlinks=True)
        for path, content in (before | tree(self.case)).items():
            done.states.setdefault(path, set()).update(f"{content} {before.get(path, '')}".split())
        seen = {path for _, path in done.calls}
        self.unseen += sum(not any(_covers(one, path) for one in seen) for path in tree(self.case).keys() - before)
        self.undisturbed[name] = done
        return done

    def disturbed(self, name: str, number: int, fault: Fault) -> dict[str, Any]:
        """What happens if a call of a part fails."""
        part, normal = PARTS[name], self.reference(name)
        self.prepare(name)
        done = self.command(part.words, FaultyDisk(self.case, fault, number))
        killed = fault.error == 0
        found = [] if killed and done.status == -signal.SIGKILL else done.defects()
        if done.broken is None and not killed:
            found.append("the call was not made")
        left = tree(self.case)
        if fault.error != errno.EIO or part.reported != normal.calls[number][0]:
            found += [f"{path} is half-written" for path in left if not self.is_whole(name, path, left[path])]
        removable = not killed and (fault.error == errno.ENOSPC or not fault.lasts)
        deletes = normal.calls[number][0] in {"unlink", "remove", "rmdir"}
        if removable and not deletes:
            found += [f"{path} is left behind" for path in left if _temporary(path)]
        if done.status == 0:
            found += self.differences(name)
        return {"status": done.status, "said": done.sentences[:1], "defects": found}

    def repaired(self, name: str) -> tuple[str, list[str]]:
        """Repeat the command of a part without a fault: "same bytes" or "sentence", and what is wrong."""
        part = PARTS[name]
        words = part.words
        if part.run and (self.case / part.run / "recipe.toml").is_file():
            words = f"train --resume --out {part.run}"
        if part.again:
            shutil.rmtree(self.case / part.again, ignore_errors=True)
        before = tree(self.case)
        done = self.command(words)
        found = [f"again: {defect}" for defect in done.defects()]
        if done.status == self.reference(name).status:
            return "same bytes", [*found, *(f"again: {defect}" for defect in self.differences(name))]
        if not part.refuses or tree(self.case) != before:
            found.append(f"again: it does not go on: {done.said[-300:]!r}")
        return "sentence", found

    def is_whole(self, name: str, path: str, content: str) -> bool:
        """Whether a file that a disturbed command left is one that the undisturbed one had, too."""
        normal = self.undisturbed[name]
        if _temporary(path) or path.endswith(".lock"):
            return True
        if Path(path).name in LISTS:
            lines = self.text(self.case, path).rpartition("\n")[0]
            return self.text(self.home / f"{name} done", path).startswith(lines)
        return normal.states.get(path, set()).issuperset(content.split())

    def text(self, folder: Path, path: str) -> str:
        """The text of a file with a canonical name."""
        file = folder / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def differences(self, name: str) -> list[str]:
        """How the folder differs from that of the undisturbed command."""
        wanted, here = tree(self.home / f"{name} done"), tree(self.case)
        needless = (*OPTIONAL, *PARTS[name].needless)
        counted = {path for path in wanted.keys() | here if not _temporary(path) and not path.startswith(needless)}
        return [f"{path} differs, or is missing or new" for path in counted if wanted.get(path) != here.get(path)]

    def command(self, words: str, disk: FaultyDisk | None = None) -> Outcome:
        """Run ``tailcloud WORDS`` in the folder of the case, in a fork of this process."""
        said, about = self.scratch / "said", self.scratch / "about"
        about.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            self._live(words, disk, said, about)
        status = _wait(child)
        text = said.read_text(encoding="utf-8", errors="replace")
        if not about.exists():
            return Outcome(status, text)
        seen = json.loads(about.read_text())
        states = {path: set(digests) for path, digests in seen["states"].items()}
        calls = [(kind, path) for kind, path in seen["calls"]]
        return Outcome(status, text, calls, states, tuple(seen["broken"]) if seen["broken"] else None)

    def _live(self, words: str, disk: FaultyDisk | None, said: Path, about: Path) -> None:
        """The child: run the command and end."""
        status = 99
        try:
            with said.open("w") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            os.chdir(self.case)
            os.setpgid(0, 0)
            os.environ |= {"TAILCLOUD_CACHE": "cache", "TMPDIR": str(self.case / "tmp"), "COLUMNS": "1000"}
            (self.case / "tmp").mkdir(exist_ok=True)
            tempfile.tempdir = None
            status = run_here(words, disk)
            sys.stdout.flush()
            if disk:
                seen = {"calls": disk.calls, "states": {path: sorted(each) for path, each in disk.states.items()}}
                about.write_text(json.dumps({**seen, "broken": disk.broken}))
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


PREPARED = typer.main.get_command(app)


def prepared_command(_: typer.Typer) -> Any:
    """What typer makes of all verbs; to make it anew takes a tenth of a second."""
    return PREPARED


def standing_clock() -> float:
    """The seconds of a clock that stands still."""
    return 0.0


def run_here(words: str, disk: FaultyDisk | None) -> int:
    """Run ``tailcloud WORDS`` in this process, on this disk; its exit status."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", ["tailcloud", *words.split()]))
        stack.enter_context(mock.patch.object(typer.main, "get_command", prepared_command))
        stack.enter_context(mock.patch("time.perf_counter", standing_clock))
        stack.enter_context(mock.patch("tailcloud.training.run_result.datetime", OneMoment))
        stack.enter_context(mock.patch("tailcloud.training.run_result.commit", return_value=None))  # which asks git
        if disk:
            stack.enter_context(disk.installed())
        try:
            tailcloud_main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


def _wait(child: int) -> int | None:
    """The status of a child; None if it had to be killed because it hung."""
    handle = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([handle], [], [], SECONDS)
        if not ready:
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) if ready else None
    finally:
        os.close(handle)


def tree(folder: Path) -> dict[str, str]:
    """The files below a folder: canonical name → digest, or several of files whose names differ in a random part."""
    found: dict[str, list[str]] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found.setdefault(canonical(str(path.relative_to(folder))), []).append(digest(path.read_bytes()))
    return {path: " ".join(sorted(digests)) for path, digests in found.items()}


def _temporary(path: str) -> bool:
    return any(part.startswith(TEMPORARY) for part in path.split("/")) or path.startswith("tmp/")


def _covers(seen: str, path: str) -> bool:
    """Whether a call on a file or folder explains a file; a folder is renamed with everything in it."""
    return path == seen or path.startswith(f"{seen}/")


def draw_photos(folder: Path, numbers: Iterable[int] = range(24)) -> None:
    """Two classes of small pictures, one of them with a wrong label."""
    for number in numbers:
        name = "cat" if number < 16 else "dog"
        (folder / name).mkdir(parents=True, exist_ok=True)
        level = 60 if name == "cat" and number else 190
        pixels = np.random.default_rng(number).integers(level - 50, level + 50, (20, 20, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number}.png")


def import_what_is_used(bench: Bench, names: Iterable[str]) -> None:
    """Import here what the commands import, and compile the templates of pages, so that their forks need not."""
    pages = render._environment()
    for template in pages.list_templates(filter_func=lambda name: name.endswith(".html.j2")):
        pages.get_template(template)
    file = bench.scratch / "modules"
    for name in names:
        bench.reference(name)
        bench.prepare(name)
        child = os.fork()
        if not child:
            os.chdir(bench.case)
            with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
                run_here(PARTS[name].words, None)
            file.write_text("\n".join(sys.modules))
            os._exit(0)
        os.waitpid(child, 0)
        for module in file.read_text().split():
            with contextlib.suppress(Exception):
                importlib.import_module(module)


def break_all(bench: Bench, name: str, faults: dict[str, Fault], every: int = 1) -> dict[str, Any]:
    """Break each call (or every so-many-th) of a part by each fault; counts, and a line for each defect."""
    normal, started = bench.reference(name), time.perf_counter()
    counts: Counter[str] = Counter()
    defects: list[str] = []
    sentences: set[str] = set()
    for fault_name, fault in faults.items():
        for number in range(0, len(normal.calls), every):
            case = bench.disturbed(name, number, fault)
            after, wrong = bench.repaired(name)
            counts["cases"] += 1
            counts["went on" if case["status"] == 0 else "sentence" if case["said"] else "killed"] += 1
            counts[f"then {after}"] += 1
            sentences |= {shape_of(sentence) for sentence in case["said"]}
            for defect in [*case["defects"], *wrong]:
                defects.append(f"{fault_name}, call {number} ({' '.join(normal.calls[number])}): {defect}")
                print(f"{name}: {defects[-1]}", flush=True)
    kinds = Counter(kind for kind, _ in normal.calls)
    found = {"part": name, "command": f"tailcloud {PARTS[name].words}", "faults": list(faults), "every": every}
    found |= {"calls": len(normal.calls), "kinds": kinds}
    seconds = round(time.perf_counter() - started, 1)
    return {**found, **counts, "seconds": seconds, "sentences": sorted(sentences), "defects": defects}


def shape_of(sentence: str) -> str:
    """A sentence without the names of files, to see how many different ones there are."""
    return re.sub(r"\S*/\S+", "FILE", canonical(sentence.removeprefix("error: ")))


def added(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The record of a part with more faults."""
    for key in ("commit", "calls", "every"):
        if first[key] != second[key]:
            raise SystemExit(f"{first['part']}: the records have a different {key}")
    total: dict[str, Any] = dict(first)
    for key in ("cases", *COUNTED, "seconds"):
        total[key] = first.get(key, 0) + second.get(key, 0)
    for key in ("faults", "sentences", "defects"):
        total[key] = [*first[key], *(one for one in second[key] if one not in first[key])]
    return total


def join(records: Sequence[Path], target: Path) -> None:
    """One record of several, the parts in their usual order, each with its commit. Records may be joined already.

    Records of one part have different faults, and are added.
    """
    contents = [read_json(path) for path in records]
    parts: dict[str, dict[str, Any]] = {}
    for one in contents:
        for part in one["parts"]:
            found = {"commit": one["commit"]} | part
            parts[part["part"]] = added(parts[part["part"]], found) if part["part"] in parts else found
    ordered = [parts[name] for name in PARTS if name in parts]
    unseen = sum(content["files_not_seen"] for content in contents)
    write_json(target, {**contents[0], "parts": ordered, "files_not_seen": unseen})


def main() -> None:
    """Break the writes of all parts, or of some, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one")
    parser.add_argument("--every", type=int, default=1, help="break every so-many-th call")
    parser.add_argument("--write", type=Path, default=RESULTS / "broken-writes.json")
    parser.add_argument("--join", nargs="+", type=Path, metavar="RECORD", help="run nothing; join these records")
    words = parser.parse_args()
    if words.join:
        join(words.join, words.write)
        return
    torch.set_num_threads(1)
    names = words.part or list(PARTS)
    faults = {name: FAULTS[name] for name in words.fault or FAULTS}
    device = torch.device("cpu")
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home).resolve())
        import_what_is_used(bench, names)
        record: dict[str, Any] = {"seed": 0, "parts": []}
        for name in names:
            record["parts"].append(break_all(bench, name, faults, words.every))
            print({key: value for key, value in record["parts"][-1].items() if key not in LONG}, flush=True)
            write_record(words.write, {**record, "files_not_seen": bench.unseen}, device)


if __name__ == "__main__":
    main()
