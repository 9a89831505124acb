"""What ``tailcloud train`` prints: the chosen recipe, the plan of a dry run, results and errors."""

import shlex
from collections.abc import Sequence

import torch

from tailcloud.cli.console import out, print_columns, print_error, print_note
from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError
from tailcloud.formatting import magnitude, number
from tailcloud.launch.execute import run_remarks
from tailcloud.launch.fleet import Outcome
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import PlannedRun, with_seed
from tailcloud.recipe import Recipe
from tailcloud.reporting.labels import chosen_among, ece_basis, ece_by_chance
from tailcloud.reporting.stage_changes import changes_in_words
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.result import PickedEpoch, Result, StageResult
from tailcloud.training.run_cost import estimate

FIGURES = {
    "top1": "top1",
    "balanced_accuracy": "balanced",
    "many": "many",
    "medium": "medium",
    "few": "few",
}


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
            print_note(remark)


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
            f"sampler {stage.sampler.name}, mixup {stage.mixup:g}, cutmix {stage.cutmix:g}, trains {stage.train}, "
            f"lr {stage.lr:g} ({stage.schedule})"
        )
    out.print(f"memory   about {magnitude(figures.memory)}B on {device}")


def print_outcomes(runs: Sequence[PlannedRun], outcomes: Sequence[Outcome]) -> None:
    """The results of finished runs, their mean, and how to compare several."""
    for run, outcome in zip(runs, outcomes, strict=True):
        if not isinstance(outcome, TailcloudError):
            print_result(run, outcome)
    print_summary([outcome for outcome in outcomes if not isinstance(outcome, TailcloudError)])
    if len(runs) > 1:
        folders = shlex.join(str(run.folder.path) for run in runs)
        out.print(f"compare them: tailcloud report {folders} --out comparison.html", markup=False)


def print_result(run: PlannedRun, result: Result) -> None:
    """The metrics of a run, stage by stage, what each stage changed, which is kept, and the path of its report."""
    out.print(f"{run.title}  {run.folder.report_file}", markup=False)
    for stage in result.stages:
        out.print(f"  {stage.name}  {figures_of(stage)}  ({stage.seconds or 0:.1f} s)")
        if picked := stage.picked:
            chosen = f"kept epoch {picked.epoch}, chosen on {picked.on}{chosen_among(stage)}"
            out.print(f"  {' ' * len(stage.name)}  {figures_of(picked)}  ({chosen})")
    for sentence in [*changes_in_words(result), *([result.kept_stage.reason] if result.kept_stage else [])]:
        out.print(f"  {sentence}", markup=False)
    basis = [ece_basis(result.calibrated), ece_by_chance(result.calibrated)]
    out.print(f"  ece {number(result.ece_in_use)} ({'; '.join(filter(None, basis))})")


def figures_of(measured: StageResult | PickedEpoch) -> str:
    """The main metrics in one line."""
    return "  ".join(f"{name} {number(getattr(measured, key))}" for key, name in FIGURES.items())


def print_summary(results: list[Result]) -> None:
    """Mean and standard deviation over the runs of each method that has several.

    The ECE is of the test images as they are in every row, as on the page of a comparison: the probabilities in use
    assume other class frequencies from method to method, so their ECEs cannot be compared.
    """
    lines: list[tuple[str, ...]] = [("mean ± deviation", "runs", *FIGURES.values(), "raw ece")]
    for table in by_dataset(results):
        for row in (row for row in table.rows if len(row.results) > 1):
            figures = [row.summary(key).text() for key in (*FIGURES, "ece")]
            lines.append((f"{row.label}, {table.spec}", str(len(row.results)), *figures))
    if len(lines) > 1:
        print_columns(lines)
        out.print(
            "raw ece: of the test images as they are, without temperature; a run's own line: of what predict gives"
        )


def finish_with_errors(runs: Sequence[PlannedRun], outcomes: Sequence[Outcome]) -> None:
    """Print each error once, with the runs that failed with it.

    Raises:
        TailcloudError: a run failed.
    """
    failed: dict[str, list[str]] = {}
    errors = [outcome for outcome in outcomes if isinstance(outcome, TailcloudError)]
    for run, outcome in zip(runs, outcomes, strict=True):
        if isinstance(outcome, TailcloudError):
            failed.setdefault(str(outcome), []).append(run.title)
    sentences = [f"{', '.join(titles)}: {text}" if len(runs) > 1 else text for text, titles in failed.items()]
    for sentence in sentences[:-1]:
        print_error(sentence)
    if errors:
        raise type(errors[-1])(sentences[-1])
