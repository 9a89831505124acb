"""Follow docs/tutorial.md or docs/figures.md: what the commands print and pictures of their pages go into the docs.

    python benchmarks/tutorial_output.py [--page figures] [--keep FOLDER]

The commands run in an empty folder, in order, as tests/test_tutorial.py runs them; a few minutes on two cores.
``<!-- output: COMMAND -->`` in the page marks a block that is replaced, ``; lines: N`` keeps its first N lines.
Pictures need chromium.
"""

import argparse
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
STEP = re.compile(r"(?:`(\w+\.py)`:\n\n)?```(?:python|console)\n(.*?)```", re.DOTALL)
OUTPUT = re.compile(r"(<!-- output: (.+?)(?:; lines: (\d+))? -->\n\n```text\n).*?(```)", re.DOTALL)
WIDTH = 100  # characters of the terminal
FIRST_STEP = {"tutorial": "## 1. ", "figures": "## "}  # what is above it installs
# For each picture: an HTML page, sections of it, and a CSS selector of what is left out of them.
PICTURES: dict[str, dict[str, tuple[str, tuple[str, ...], str]]] = {
    "tutorial": {
        "tutorial-inspect.png": ("photos.html", ("numbers", "classes", "copies"), ""),
        "tutorial-report.png": ("runs/signs/report.html", ("numbers", "accuracy"), ""),
        "tutorial-worst.png": ("runs/signs/report.html", ("worst",), ""),
    },
    "figures": {
        "embedding.png": ("embedding.html", ("test",), ""),
        "saturation.png": ("saturation.html", ("data-1",), "main > section > :not(.grid), .grid > :not(:last-child)"),
    },
}
COLORS, MARGIN = 64, 24  # of a picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", choices=list(PICTURES), default="tutorial")
    parser.add_argument("--keep", type=Path, help="an empty folder to work in; it stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        page = DOCS / f"{options.page}.md"
        text = page.read_text(encoding="utf-8")
        steps = text.split(FIRST_STEP[options.page], 1)[1]
        page.write_text(with_output(text, follow(steps, folder.resolve())), encoding="utf-8")
        for name, (html, sections, without) in PICTURES[options.page].items():
            take_picture(folder / html, sections, without, DOCS / "images" / name)
    return 0


def follow(steps: str, folder: Path) -> dict[str, str]:
    """Save the files and run the commands of a page; what each command printed."""
    printed: dict[str, str] = {}
    for file, block in STEP.findall(steps):
        if file:
            (folder / file).write_text(block, encoding="utf-8")
        else:
            for line in (line.removeprefix("$ ") for line in block.splitlines()):
                print(f"$ {line}", flush=True)
                printed[line] = run(line, folder)
    return printed


def run(command: str, folder: Path) -> str:
    """What a command prints on a terminal without colours; progress bars are those of a pipe."""
    program, *words = shlex.split(command)
    python = {"tailcloud": [sys.executable, "-m", "tailcloud"], "python": [sys.executable]}
    environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "dumb", "PYTHONPATH": str(ROOT / "src")}
    environment["TAILCLOUD_CACHE"] = str(folder / "cache")  # empty at first, as a reader's is
    arguments = [*python.get(program, [program]), *chain.from_iterable(expand(word, folder) for word in words)]
    if words[:1] != ["predict"]:
        done = subprocess.run(
            arguments, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return done.stdout.decode()
    ours, theirs = pty.openpty()
    with subprocess.Popen(arguments, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def expand(word: str, folder: Path) -> list[str]:
    """The paths that match a pattern, as a shell gives them; any other word is left alone."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word]


def with_output(text: str, printed: dict[str, str]) -> str:
    """The page with the blocks of output replaced."""

    def block(found: re.Match[str]) -> str:
        start, command, limit, end = found.groups()
        lines = [line.rstrip() for line in printed[command].strip("\n").splitlines()]
        if limit and len(lines) > int(limit):
            lines = [*lines[: int(limit)], "…"]
        return start + "\n".join(lines) + "\n" + end

    return OUTPUT.sub(block, text)


def take_picture(page: Path, sections: tuple[str, ...], without: str, target: Path) -> None:
    """Some sections of a page, cut to their content, in few colours; its head where the key numbers are shown."""
    others = "".join(f":not([aria-labelledby={name}])" for name in sections)
    hidden = [f"main > section{others}", "footer", *(["main > header"] if "numbers" not in sections else [])]
    style = f"<style>{', '.join([*hidden, without] if without else hidden)} {{ display: none !important }}</style>"
    with tempfile.TemporaryDirectory() as scratch:
        copy, shot = Path(scratch, "page.html"), Path(scratch, "page.png")
        copy.write_text(page.read_text(encoding="utf-8").replace("</head>", f"{style}</head>"), encoding="utf-8")
        browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or "chromium"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,3000"]
        subprocess.run([browser, *flags, f"--screenshot={shot}", copy.as_uri()], check=True, capture_output=True)
        image = Image.open(shot).convert("RGB")
    empty = Image.new("RGB", image.size, image.getpixel((0, 0)))
    box = ImageChops.difference(image, empty).getbbox()
    if box:
        image = image.crop((0, 0, image.width, min(image.height, box[3] + MARGIN)))
    target.parent.mkdir(exist_ok=True)
    image.quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
