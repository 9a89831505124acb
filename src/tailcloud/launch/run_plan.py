"""From the words of a ``train`` command to the runs it asks for."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tailcloud.backbones.pretrained import check_weights, find_weights
from tailcloud.cli.console import out, say_note
from tailcloud.data import Dataset, is_path
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import magnitude
from tailcloud.launch.auto import chooses, chosen_recipe
from tailcloud.launch.run_data import open_data
from tailcloud.plugins import plugin_arguments
from tailcloud.recipe import Recipe, differences, load_recipe, parse_setting
from tailcloud.recipe.parameter_names import frozen_remarks
from tailcloud.runs.folder import RunFolder
from tailcloud.training.run_cost import estimate


@dataclass(frozen=True)
class Request:
    """What was typed after ``tailcloud train``."""

    recipes: Sequence[str] = ()
    data: str | None = None
    root: str | None = None
    settings: Sequence[str] = ()
    seeds: Sequence[int] = ()
    out: Path | None = None
    resume: bool = False
    dry_run: bool = False
    device: str = "auto"
    time_budget: str | None = None
    started: float | None = None  # when the command began, by time.perf_counter

    def overrides(self) -> list[Mapping[str, Any]]:
        """The settings that lie over a recipe, the strongest last."""
        options = {"data": self.data, "root": self.root}
        return [*map(parse_setting, self.settings), {key: value for key, value in options.items() if value is not None}]

    def command(self, recipe: str | None, seed: int) -> str:
        """The command for one of the runs."""
        words = ["tailcloud", "train", *([recipe] if recipe else [])]
        for option, value in (("--data", self.data), ("--root", self.root), ("--time-budget", self.time_budget)):
            words += [option, value] if value is not None else []
        for setting in self.settings:
            words += ["--set", setting]
        return shlex.join([*words, *plugin_arguments(), "--seed", str(seed)])


@dataclass(frozen=True)
class Run:
    """One run that was asked for."""

    folder: RunFolder
    recipe: Recipe
    command: str

    @property
    def title(self) -> str:
        """The run in a few words."""
        return f"{self.recipe.data.spec} {self.recipe.method} seed {self.recipe.seed}"


def plan_runs(request: Request) -> list[Run]:
    """The runs of a request, each with its folder; everything that can be refused is refused here."""
    if request.resume and request.time_budget and len(request.seeds) < 2:
        raise UsageError("--time-budget is for a new run; one that is resumed keeps the recipe it was started with")
    if request.resume and request.out and not request.recipes and not request.seeds:
        return [continued(RunFolder(request.out), request)]
    if len(set(request.seeds)) < len(request.seeds):
        raise UsageError(f"each seed can be given once, not {', '.join(map(str, request.seeds))}")
    for reference in request.recipes if request.resume else []:
        if RunFolder(Path(reference)).exists:
            raise UsageError(f'a run is named with --out: "tailcloud train --resume --out {reference}"')
    references: Sequence[str | None] = request.recipes or [None]
    runs = [run for reference in references for run in runs_of(reference, request)]
    folders = [run.folder.path for run in runs]
    if len(set(folders)) < len(folders):
        raise UsageError(
            f"two of these recipes would train in {max(folders, key=folders.count)}; train them one by one"
        )
    return runs


def runs_of(reference: str | None, request: Request) -> list[Run]:
    """The runs of one recipe: one for each seed. A recipe that is to be chosen is, if a run is to be started."""
    recipe = load_recipe(reference, request.overrides())
    choosing = chooses(request, recipe)
    seeds = list(request.seeds) or [recipe.seed]
    folders = {seed: RunFolder(run_path(reference, reseeded(recipe, seed), request)) for seed in seeds}
    new = [seed for seed, folder in folders.items() if not (request.resume and folder.exists)]
    alone = len(seeds) == 1 and len(request.recipes) < 2
    check_new([folders[seed] for seed in new], request, alone=alone)
    if choosing and new:
        others = [folder.recipe() for seed, folder in folders.items() if seed not in new]
        recipe = others[0] if others else chosen_recipe(request, recipe)
        named = {seed: RunFolder(run_path(reference, reseeded(recipe, seed), request)) for seed in new}
        check_new(list(named.values()), request, alone=alone)  # the method may be another one
        folders |= named
    if recipe.model.weights and new:
        check_weights(find_weights(recipe.model.weights, recipe.root), recipe.model.weights_sha256)
    return [
        Run(folder, reseeded(recipe, seed), request.command(reference, seed))
        if seed in new
        else continued(folder, request, None if choosing else reseeded(recipe, seed))
        for seed, folder in folders.items()
    ]


def check_new(folders: Sequence[RunFolder], request: Request, *, alone: bool) -> None:
    """Runs may start in these folders."""
    for folder in folders:
        if request.resume and alone:
            raise TailcloudError(f"{folder.path} holds no run to resume; leave out --resume to start one")
        if not request.dry_run:
            folder.check_free()


def run_path(reference: str | None, recipe: Recipe, request: Request) -> Path:
    """``--out`` is the run folder itself; with several recipes or seeds it holds a folder for each."""
    base = request.out or Path("runs") / f"{short_name(recipe.data.spec)}-{recipe.method}"
    if request.out and reference and len(request.recipes) > 1:
        base = base / Path(reference).name.removesuffix(".toml")
    if base != request.out or len(request.seeds) > 1:
        refuse_inside_a_run(request.out)
    if len(request.seeds) > 1:
        return base / f"seed{recipe.seed}"
    return base if request.out else base.with_name(f"{base.name}-seed{recipe.seed}")


def short_name(spec: str) -> str:
    """A SPEC as a part of a folder's name: the name of the file or folder where it is a path."""
    return (Path(spec).resolve().stem or "images") if is_path(spec) else spec.replace(":", "-")


def refuse_inside_a_run(output: Path | None) -> None:
    """Several runs need a folder of their own, not one that is itself a run."""
    if output and RunFolder(output).exists:
        raise UsageError(f"{output} is a run itself; several runs need another folder for their folders")


def reseeded(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with another seed."""
    if seed < 0:
        raise UsageError(f"--seed {seed} must not be negative")
    return recipe.model_copy(update={"seed": seed})


def continued(folder: RunFolder, request: Request, asked: Recipe | None = None) -> Run:
    """A run that exists, by its own recipe; asking for another one is refused, another data folder is not."""
    own = folder.recipe()
    asked = asked or load_recipe(str(folder.recipe_file), request.overrides())
    for field, then, now in differences(own.substance(), asked.substance()):
        raise UsageError(
            f"{folder.path} was started with {field} = {then}, and this command asks for {now}; resume it with "
            f'"tailcloud train --resume --out {folder.path}", or start a new run in another folder'
        )
    return Run(folder, own.model_copy(update={"root": request.root or own.root}), folder.command())


def print_plan(runs: Sequence[Run], device: torch.device) -> None:
    """What would happen, without doing any of it: each recipe once, with the runs it is for."""
    by_recipe: dict[str, list[Run]] = {}
    for run in runs:
        by_recipe.setdefault(reseeded(run.recipe, 0).to_toml(), []).append(run)
    for members in by_recipe.values():
        dataset = open_data(members[0].recipe)
        describe(members[0].recipe, dataset, device)
        for run in members:
            out.print(f"run      seed {run.recipe.seed} in {run.folder.path}", markup=False)
        for remark in [*frozen_remarks(members[0].recipe), *dataset.profile.remarks(), *dataset.remarks]:
            say_note(remark)


def describe(recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
    """Data, model, stages and memory of a recipe."""
    profile, figures = dataset.profile, estimate(recipe, dataset)
    groups = " / ".join(str(len(members)) for members in profile.groups.values())
    out.print(f"{recipe.method} on {dataset.spec} (fingerprint {dataset.fingerprint})", markup=False, style="bold")
    out.print(
        f"data     {profile.total:,} training, {len(dataset.val) if dataset.val else 0:,} validation and "
        f"{len(dataset.test):,} test images; {profile.classes} classes, many / medium / few {groups}"
    )
    out.print(
        f"model    {recipe.model.backbone}, {recipe.model.head} head: {figures.parameters:,} parameters, "
        f"{magnitude(figures.flops)}FLOP an image"
    )
    for name, stage in recipe.stages.items():
        if not stage.epochs:
            out.print(f"{name}   no epochs; its change of the head is {stage.head_transform.name}")
            continue
        out.print(
            f"{name}   {stage.epochs} epochs, {figures.steps[name]:,} steps of {stage.batch}; loss {stage.loss.name}, "
            f"sampler {stage.sampler.name}, mixup {stage.mixup:g}, trains {stage.train}, "
            f"lr {stage.lr:g} ({stage.schedule})"
        )
    out.print(f"memory   about {magnitude(figures.memory)}B on {device}")
