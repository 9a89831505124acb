"""Train one run through many deaths: ``kill_chain.py FOLDER KILLS SEED KEY=VALUE…``.

Everything heavy is imported once; each life of the run is a fork that ends by SIGKILL at a random moment, until the
last one is left alone. Prints, for each death, how many epochs were logged at that moment.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401

import tailcloud.cli.progress
import tailcloud.launch.run_plan
import tailcloud.reporting
import tailcloud.training.loop  # noqa: F401
from tailcloud.cli import main


def live(arguments):
    """A life of the run, in a process of its own."""
    child = os.fork()
    if child:
        return child
    sys.argv = ["tailcloud", *arguments]
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        main()
    except SystemExit as stop:
        os._exit(int(stop.code or 0))
    except BaseException:
        os._exit(99)
    os._exit(0)


def logged(folder):
    file = folder / "log.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def words(folder, settings):
    """What to type: start the run, or go on with it."""
    if (folder / "recipe.toml").exists():
        return ["train", "--resume", "--out", str(folder)]
    changes = [word for setting in settings for word in ("--set", setting)]
    return ["train", "digits-lt/gcl", "--device", "cpu", "--out", str(folder), *changes]


def main_chain(folder, kills, seed, settings):
    chance = random.Random(seed)
    epochs = sum(int(setting.partition("=")[2]) for setting in settings if ".epochs=" in setting)
    deaths = []
    for target in sorted(chance.sample(range(epochs), kills)):
        child = live(words(folder, settings))
        while logged(folder) < target:
            finished, _ = os.waitpid(child, os.WNOHANG)
            if finished:
                sys.exit(f"the run ended by itself before epoch {target}")
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"the run ended by itself at epoch {target}")
        deaths.append(logged(folder))
    last = live(words(folder, settings))
    _, status = os.waitpid(last, 0)
    print(json.dumps(deaths))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main_chain(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
