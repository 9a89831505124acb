"""Kill one of two processes of a run ten times: are the weights the same bits as without?

python benchmarks/rank_failure.py --out benchmarks/results/killed-ranks.json
"""

import argparse
import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tailcloud.files import write_json
from tailcloud.training.devices import commit, machine

CHAIN = Path(__file__).parents[1] / "tests" / "helpers" / "kill_ranks.py"
SETTINGS = [
    "model.width=0.25",
    "stage1.epochs=24",
    "stage2.epochs=8",
    "stage1.batch=32",
    "engine.checkpoint_seconds=0.02",
]


def chain(folder: Path, kills: int, seed: int) -> list[list[int]]:
    """Train a run through so many failures: for each, the killed rank and the epochs logged by then."""
    command = [sys.executable, str(CHAIN), str(folder), str(kills), str(seed), *SETTINGS]
    deaths: list[list[int]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return deaths


def main() -> None:
    """Compare the two runs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    words = parser.parse_args()
    with TemporaryDirectory() as folder:
        killed, whole = Path(folder) / "killed", Path(folder) / "whole"
        deaths = chain(killed, words.kills, words.seed)
        chain(whole, 0, words.seed)
        digests = {run.name: sha256((run / "model.safetensors").read_bytes()).hexdigest() for run in (killed, whole)}
    record = {
        "what": "one of two gloo processes is ended by SIGKILL, and the run goes on with --resume",
        "settings": SETTINGS,
        "deaths": [{"rank": rank, "epochs": epochs} for rank, epochs in deaths],
        "sha256": digests,
        "same_bits": digests["killed"] == digests["whole"],
        "machine": machine(torch.device("cpu")),
        "commit": commit(),
    }
    write_json(words.out, record)
    print(json.dumps({key: record[key] for key in ("deaths", "same_bits")}))


if __name__ == "__main__":
    main()
