"""A run that takes a second, and observers that watch it."""

import torch
from safetensors.torch import load_file

from tailcloud.data import hold_out, open_dataset
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.training.loop import train

SMALL = {
    "model": {"width": 0.25},
    "stage1": {"epochs": 3},
    "stage2": {"epochs": 2},
    "engine": {"checkpoint_seconds": 0.0},
}


class Watcher:
    """Remembers what it was told."""

    def __init__(self):
        self.notes, self.lines, self.stages = [], [], []

    def stage_started(self, name, stage, done):
        self.stages.append((name, done))

    def epoch_done(self, line):
        self.lines.append(line)

    def note(self, text):
        self.notes.append(text)


class Interrupted(Exception):
    pass


class StopAfter(Watcher):
    """Breaks a run off after a number of epochs."""

    def __init__(self, epochs):
        super().__init__()
        self.left = epochs

    def epoch_done(self, line):
        super().epoch_done(line)
        self.left -= 1
        if not self.left:
            raise Interrupted


def same_weights(first, second):
    a, b = (load_file(folder / "model.safetensors") for folder in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def logged(folder):
    """The log without how long epochs took."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in RunFolder(folder).log()]


def small_recipe(*settings, name="digits-lt/gcl"):
    base = dict(SMALL)
    if name.endswith("/ce"):
        base.pop("stage2")
    return load_recipe(name, [base, *settings])


def run(folder, recipe, watcher=None, limit=None, device="cpu"):
    """Start or continue a run; ``limit`` is a time limit."""
    place = RunFolder(folder)
    if not place.exists:
        place.create(recipe, "tailcloud train")
    dataset = hold_out(open_dataset(recipe.data.spec, recipe.root), recipe.selection.split)
    return train(recipe, dataset, place, torch.device(device), watcher or Watcher(), limit=limit)


def losses_of(folder, recipe, device="cpu"):
    """Train a run; the loss of each epoch."""
    run(folder, recipe, device=device)
    return [line["loss"] for line in RunFolder(folder).log()]
