"""Train one shared run through many deaths: ``kill_ranks.py FOLDER KILLS SEED KEY=VALUE…``.

torchrun starts two processes each time; one of them, drawn by chance, ends by SIGKILL at a random moment within an
epoch, and the next command goes on with ``--resume``. Prints, for each death, the rank that died and how many epochs
were logged at that moment.
"""

import json
import os
import random
import signal
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from helpers.forked_torchrun import torchrun

RANKS = 2


def start(folder, settings):
    """Two processes that begin the run, or go on with it."""
    words = ["train", "--resume", "--out", str(folder)]
    if not (folder / "recipe.toml").exists():
        changes = [word for setting in settings for word in ("--set", setting)]
        words = ["train", "digits-lt/gcl", "--device", "cpu", "--out", str(folder), *changes]
    launcher = get_context("fork").Process(target=quiet_torchrun, args=[words])
    launcher.start()
    return launcher


def quiet_torchrun(words):
    with open(os.devnull, "w") as sys.stdout:  # noqa: PTH123
        torchrun(RANKS, words)


def logged(folder):
    file = folder / "log.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def pace(folder):
    """How long the epoch took that was logged last: whoever waits longer may find that the run is over."""
    return json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["seconds"]


def kill_one(launcher, chance):
    """End one of the processes at once, and wait until the launcher has noticed; the rank that died."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    ranks = sorted(map(int, children))  # they are started in their order
    assert len(ranks) == RANKS
    victim = chance.randrange(RANKS)
    os.kill(ranks[victim], signal.SIGKILL)
    launcher.join(timeout=120)
    assert launcher.exitcode, "nobody noticed"
    return victim


def main(folder, kills, seed, settings):
    chance = random.Random(seed)
    epochs = sum(int(setting.partition("=")[2]) for setting in settings if ".epochs=" in setting)
    deaths = []
    for target in sorted(chance.sample(range(1, epochs), kills)):
        launcher = start(folder, settings)
        while logged(folder) < target:
            if not launcher.is_alive():
                sys.exit(f"the run ended by itself before epoch {target}")
            time.sleep(0.002)
        time.sleep(chance.uniform(0, min(0.2, pace(folder))))
        deaths.append((kill_one(launcher, chance), logged(folder)))
    last = start(folder, settings)
    last.join(timeout=600)
    print(json.dumps(deaths))
    sys.exit(last.exitcode)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
