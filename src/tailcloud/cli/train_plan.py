"""What ``tailcloud train`` is going to do, in lines for the terminal: the chosen recipe, and the plan of a dry run."""

from collections.abc import Sequence

import torch

from tailcloud.cli.console import out, say_note
from tailcloud.data import Dataset
from tailcloud.formatting import magnitude
from tailcloud.launch.execute import run_remarks
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import PlannedRun, with_seed
from tailcloud.recipe import Recipe
from tailcloud.training.run_cost import estimate


def print_choice(runs: Sequence[PlannedRun]) -> None:
    """The reasons for the recipe, if it was chosen; runs of one command share it."""
    run = next((run for run in runs if run.reasons), None)
    if run:
        out.print(f"Chosen for {run.recipe.data.spec}", markup=False, style="bold")
        for reason in run.reasons:
            out.print(f"- {reason}", markup=False)


def print_plan(runs: Sequence[PlannedRun], device: torch.device) -> None:
    """Each recipe once, with its runs. Nothing is trained or written."""
    by_recipe: dict[str, list[PlannedRun]] = {}
    for run in runs:
        by_recipe.setdefault(with_seed(run.recipe, 0).to_toml(), []).append(run)
    for members in by_recipe.values():
        recipe = members[0].recipe
        dataset = open_data(recipe)
        print_recipe(recipe, dataset, device)
        for run in members:
            out.print(f"run      seed {run.recipe.seed} in {run.folder.path}", markup=False)
        for remark in run_remarks(recipe, dataset):
            say_note(remark)


def print_recipe(recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
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
            out.print(f"{name}   no epochs; head transform {stage.head_transform.name}")
            continue
        out.print(
            f"{name}   {stage.epochs} epochs, {figures.steps[name]:,} steps of {stage.batch}; loss {stage.loss.name}, "
            f"sampler {stage.sampler.name}, mixup {stage.mixup:g}, trains {stage.train}, "
            f"lr {stage.lr:g} ({stage.schedule})"
        )
    out.print(f"memory   about {magnitude(figures.memory)}B on {device}")
