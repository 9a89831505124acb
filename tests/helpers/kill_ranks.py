"""Train one shared run through many deaths: ``kill_ranks.py FOLDER KILLS SEED KEY=VALUE…``.

``torchrun`` starts two processes each time; one of them, drawn by chance, ends by SIGKILL at a random moment within an
epoch, and the next command goes on with ``--resume``. Prints, for each death, the rank that died and how many epochs
were logged at that moment.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

RANKS = 2


def start(folder, settings):
    """Two processes that begin the run, or go on with it."""
    words = ["train", "--resume", "--out", str(folder)]
    if not (folder / "recipe.toml").exists():
        changes = [word for setting in settings for word in ("--set", setting)]
        words = ["train", "digits-lt/gcl", "--device", "cpu", "--out", str(folder), *changes]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "-m", "tailcloud"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*launcher, *words], env=environment, **quiet)


def logged(folder):
    file = folder / "log.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def pace(folder):
    """How long the epoch took that was logged last: whoever waits longer may find that the run is over."""
    return json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["seconds"]


def rank_of(process):
    """Which rank a process is."""
    words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return next(int(word.partition(b"=")[2]) for word in words if word.startswith(b"RANK="))


def kill_one(launcher, chance):
    """End one of the processes at once, and wait until the launcher has noticed; the rank that died."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    victim = sorted((rank_of(child), int(child)) for child in children)[chance.randrange(RANKS)]
    os.kill(victim[1], signal.SIGKILL)
    launcher.communicate(timeout=120)
    return victim[0]


def main(folder, kills, seed, settings):
    chance = random.Random(seed)
    epochs = sum(int(setting.partition("=")[2]) for setting in settings if ".epochs=" in setting)
    deaths = []
    for target in sorted(chance.sample(range(1, epochs), kills)):
        launcher = start(folder, settings)
        while logged(folder) < target:
            if launcher.poll() is not None:
                sys.exit(f"the run ended by itself before epoch {target}: {launcher.communicate()[1]}")
            time.sleep(0.002)
        time.sleep(chance.uniform(0, min(0.2, pace(folder))))
        deaths.append((kill_one(launcher, chance), logged(folder)))
    last = start(folder, settings)
    _, complaint = last.communicate(timeout=600)
    print(json.dumps(deaths))
    if last.returncode:
        sys.exit(complaint)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
