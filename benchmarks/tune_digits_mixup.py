"""How much mixup is best for digits-lt? Chosen on digits that are in neither its training nor its test part.

    python benchmarks/tune_digits_mixup.py

scikit-learn has 1,797 digits; digits-lt trains on 331 and tests on 500. The other 966 judge the settings here, by
balanced accuracy over ten seeds that no published run uses, and what was measured is written as JSON.
"""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from measurement import write_record

from tailcloud.data import Dataset, open_dataset
from tailcloud.data.benchmarks.digits import all_digits
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.loop import train

RESULT = Path(__file__).parent / "results" / "choose-digits.json"
SEEDS = range(100, 110)
ALPHAS = (0.0, 0.1, 0.2, 0.4, 1.0)
FIGURES = ("balanced_accuracy", "many", "medium", "few")


def unused_digits() -> Dataset:
    """digits-lt with the digits that it leaves out in the place of its test part."""
    dataset, everything = open_dataset("digits-lt"), all_digits()
    used = {image.tobytes() for part in (dataset.train, dataset.test) for image in part.pixels}
    rest = np.flatnonzero([image.tobytes() not in used for image in everything.pixels])
    return replace(dataset, test=everything.take(rest))


def measure(case: tuple[str, float | None, int]) -> dict[str, Any]:
    recipe_name, alpha, seed = case
    torch.set_num_threads(1)
    mixing: dict[str, Any] = {} if alpha is None else {"stage1": {"mixup": alpha}}
    recipe = load_recipe(recipe_name, [{"seed": seed, "selection": {"every": 1000}}, mixing])
    with tempfile.TemporaryDirectory() as home:
        folder = RunFolder(Path(home) / "run")
        folder.create(recipe)
        train(recipe, unused_digits(), folder, torch.device("cpu"), SilentObserver())
        result = folder.result()
    return {"recipe": recipe_name, "mixup": alpha, "seed": seed, **{key: getattr(result, key) for key in FIGURES}}


def main() -> None:
    settings = [("digits-lt/ce", None), *(("digits-lt/gcl", alpha) for alpha in ALPHAS)]
    cases = [(name, alpha, seed) for seed in SEEDS for name, alpha in settings]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(measure, cases))
    print(f"{'recipe':<14} {'mixup':>5}  balanced accuracy   few (held-out digits, {len(SEEDS)} seeds)")
    for name, alpha in settings:
        chosen = [run for run in runs if (run["recipe"], run["mixup"]) == (name, alpha)]
        cells = [
            f"{fmean(v):5.1f} ± {stdev(v):.1f}" for v in ([r[k] for r in chosen] for k in ("balanced_accuracy", "few"))
        ]
        print(f"{name:<14} {'–' if alpha is None else alpha:>5}  {cells[0]:>17}   {cells[1]}")
    write_record(RESULT, {"runs": runs}, torch.device("cpu"))


if __name__ == "__main__":
    main()
