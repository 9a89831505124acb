"""From the words of a ``train`` command to the runs it asks for."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tailcloud.cli.console import amount, out, say_note
from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.recipe import Recipe, load_recipe, parse_setting
from tailcloud.training.estimate import estimate
from tailcloud.training.folder import RunFolder


@dataclass(frozen=True)
class Request:
    """What was typed after ``tailcloud train``."""

    recipe: str | None = None
    data: str | None = None
    root: str | None = None
    settings: Sequence[str] = ()
    seeds: Sequence[int] = ()
    out: Path | None = None
    resume: bool = False

    @property
    def names_a_recipe(self) -> bool:
        """Whether anything was said about what to train."""
        return bool(self.recipe or self.data or self.settings)

    def overrides(self) -> list[Mapping[str, Any]]:
        """The settings that lie over the recipe, in the order of their strength."""
        options = {"data": self.data, "root": self.root}
        return [*map(parse_setting, self.settings), {key: value for key, value in options.items() if value is not None}]

    def command(self, seed: int) -> str:
        """The command for one of the runs."""
        words = ["tailcloud", "train", *([self.recipe] if self.recipe else [])]
        for option, value in (("--data", self.data), ("--root", self.root)):
            words += [option, value] if value is not None else []
        for setting in self.settings:
            words += ["--set", setting]
        return shlex.join([*words, "--seed", str(seed)])


@dataclass(frozen=True)
class Run:
    """One run that was asked for."""

    folder: RunFolder
    recipe: Recipe
    command: str

    @property
    def title(self) -> str:
        """The run in a few words."""
        return f"{self.recipe.data} {self.recipe.method} seed {self.recipe.seed}"


def plan_runs(request: Request) -> list[Run]:
    """The runs of a request, each with its folder; everything that can be refused is refused here."""
    if request.resume and request.out and not request.seeds:
        return [continued(RunFolder(request.out), request)]
    recipe = load_recipe(request.recipe, request.overrides())
    seeds = list(request.seeds) or [recipe.seed]
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"each seed can be given once, not {', '.join(map(str, seeds))}")
    runs = []
    for seed, path in zip(seeds, run_paths(recipe, seeds, request.out), strict=True):
        folder, seeded = RunFolder(path), reseeded(recipe, seed)
        if request.resume and folder.exists:
            runs.append(continued(folder, request))
        elif request.resume and len(seeds) == 1:
            raise TailcloudError(f"{path} holds no run to resume; leave out --resume to start one")
        else:
            folder.check_free()
            runs.append(Run(folder, seeded, request.command(seed)))
    return runs


def run_paths(recipe: Recipe, seeds: Sequence[int], output: Path | None) -> list[Path]:
    """``--out`` is the run folder itself; with several seeds it holds a folder for each."""
    base = output or Path("runs") / f"{recipe.data.replace(':', '-')}-{recipe.method}"
    if len(seeds) > 1:
        return [base / f"seed{seed}" for seed in seeds]
    return [output or base.with_name(f"{base.name}-seed{seeds[0]}")]


def reseeded(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with another seed."""
    if seed < 0:
        raise UsageError(f"--seed {seed} must not be negative")
    return recipe.model_copy(update={"seed": seed})


def continued(folder: RunFolder, request: Request) -> Run:
    """A run that exists, by its own recipe; asking for a different one is refused."""
    own = folder.recipe()
    if request.names_a_recipe:
        asked = load_recipe(request.recipe or str(folder.recipe_file), request.overrides())
        for field, then, now in differences(own.model_dump(), reseeded(asked, own.seed).model_dump()):
            if field != "root":
                raise UsageError(
                    f"{folder.path} was started with {field} = {then}, and this command asks for {now}; resume it with "
                    f'"tailcloud train --resume --out {folder.path}", or start a new run in another folder'
                )
    moved = own.model_copy(update={"root": request.root}) if request.root else own
    return Run(folder, moved, folder.command())


def differences(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two recipes differ, each with its value then and now."""
    for key in [*then, *(key for key in now if key not in then)]:
        old, new = then.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new


def print_plan(runs: Sequence[Run], dataset: Dataset, device: torch.device) -> None:
    """What would happen, without doing any of it."""
    recipe, profile = runs[0].recipe, dataset.profile
    figures = estimate(recipe, dataset)
    groups = " / ".join(str(len(members)) for members in profile.groups.values())
    out.print(f"[bold]{recipe.method}[/] on [bold]{dataset.spec}[/] (fingerprint {dataset.fingerprint})")
    out.print(
        f"data     {profile.total:,} training, {len(dataset.val) if dataset.val else 0:,} validation and "
        f"{len(dataset.test):,} test images; {profile.classes} classes, many / medium / few {groups}"
    )
    out.print(
        f"model    {recipe.model.backbone}, {recipe.model.head} head: {figures.parameters:,} parameters, "
        f"{amount(figures.flops)}FLOP an image"
    )
    for name, stage in recipe.stages.items():
        out.print(
            f"{name}   {stage.epochs} epochs, {figures.steps[name]:,} steps of {stage.batch}; loss {stage.loss.name}, "
            f"sampler {stage.sampler.name}, mixup {stage.mixup:g}, trains {stage.train}, "
            f"lr {stage.lr:g} ({stage.schedule})"
        )
    out.print(f"memory   about {amount(figures.memory)}B on {device}")
    for run in runs:
        out.print(f"run      seed {run.recipe.seed} in {run.folder.path}", markup=False)
    for remark in [*profile.remarks(), *dataset.remarks]:
        say_note(remark)
