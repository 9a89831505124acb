"""From a training request to its runs: recipe, run folder and command of each.

If the request names no recipe, one is chosen for the data (``choose_recipe``).
"""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tailcloud.data import OWN, Dataset, hold_out, is_path, parse_spec
from tailcloud.data.readers.open_path import named_root
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import check_output, expand_home
from tailcloud.formatting import some_of
from tailcloud.freed_memory import freed_memory_kept
from tailcloud.launch.command_line import command_line
from tailcloud.launch.run_data import DataSource, has_test, note_same_images, open_data, open_for_choice
from tailcloud.recipe import Recipe, differences, load_recipe, parse_setting, resolve
from tailcloud.recipe.merge import merge, settings_named
from tailcloud.recipe.resolve import spec_of
from tailcloud.recipe.schema import LARGEST_SEED, Model
from tailcloud.runs.folder import RunFolder
from tailcloud.training.devices import check_engine, pick_device
from tailcloud.training.time_limit import TimeLimit

if TYPE_CHECKING:
    from tailcloud.auto_recipe import Choice

FINISHING_SHARE, LEAST_SHARE = 0.03, 0.05  # of a time budget: after the last stage at least; for training in any case
RUNS, LISTED_RUNS = Path("runs"), 5  # where runs without --out are, and how many of them an error names
EXPECTED_SPLIT = 0.1  # held-out share that is assumed while the time of a run is estimated

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainRequest:
    """What ``tailcloud train``, ``tailcloud.train`` or ``LongTailClassifier.fit`` should do.

    Args:
        recipes: names, files or recipes; if empty, the recipe of the data, or one that is chosen for them.
        data: the name or path of the data, or a source from Python code; None: the data of the recipe.
        root: the folder with the data files.
        settings: ``KEY=VALUE``, each changes a field of the recipe.
        seeds: one run for each; if empty, one run with the seed of the recipe.
        out: the run folder; with several runs, the parent of their folders.
        resume: continue the runs that exist.
        dry_run: existing run folders are allowed, because nothing is written.
        device: "auto", "cpu", "cuda" or "mps".
        time_budget: time for all runs together, as text such as "10m" or in seconds.
        like: a run folder; its recipe is taken, with the settings changed.
        teachers: run folders, from whose mean logits the runs also learn; they replace ``distill.teachers``.
        started: when the time budget began, by ``time.perf_counter``.
        origin: what the run folder records as the run's command; by default the ``tailcloud train`` command.
    """

    recipes: Sequence[str | Recipe] = ()
    data: str | DataSource | None = None
    root: str | None = None
    settings: Sequence[str] = ()
    seeds: Sequence[int] = ()
    out: Path | None = None
    resume: bool = False
    dry_run: bool = False
    device: str = "auto"
    time_budget: str | float | None = None
    like: Path | None = None
    teachers: Sequence[Path] = ()
    started: float | None = None
    origin: str | None = None

    @property
    def source(self) -> DataSource | None:
        """The source of the data; None if they have a name or path."""
        return None if isinstance(self.data, str) else self.data

    @property
    def spec(self) -> str | None:
        """The name of the data."""
        return self.data if isinstance(self.data, str) or self.data is None else self.data.spec

    def overrides(self) -> list[Mapping[str, Any]]:
        """The settings that replace fields of a recipe; later ones win. New teachers replace the digests of others."""
        teachers = {"teachers": [str(teacher) for teacher in self.teachers]} if self.teachers else None
        options = {
            "data": self.spec,
            "root": None if self.root is None else named_root(self.root),
            "distill": teachers,
        }
        layers: list[Mapping[str, Any]] = [
            *map(parse_setting, self.settings),
            {key: value for key, value in options.items() if value is not None},
        ]
        return [{"distill": {"sha256": []}}, *layers] if any(map(names_teachers, layers)) else layers

    def names(self) -> list[str]:
        """The recipes by name."""
        return [recipe if isinstance(recipe, str) else f"Recipe {recipe.method}" for recipe in self.recipes]

    def command(self, recipe: str | Recipe | None, seed: int, folder: RunFolder) -> str:
        """The command that repeats one of the runs. A ``Recipe`` object is read from the run folder."""
        if self.origin is not None:
            return self.origin
        if isinstance(recipe, Recipe) and self.like is None:
            return command_line("train", [str(folder.recipe_file)], {})
        budget = f"{self.time_budget:.12g}s" if isinstance(self.time_budget, int | float) else self.time_budget
        options = {
            "--like": None if self.like is None else str(self.like),
            "--data": self.spec,
            "--root": self.root,
            "--time-budget": budget,
            "--teacher": [str(teacher) for teacher in self.teachers],
            "--set": self.settings,
        }
        return command_line("train", [recipe] if isinstance(recipe, str) else [], options, seed)


@dataclass(frozen=True)
class PlannedRun:
    """A run that can be executed: its folder, its recipe, and the command that repeats it.

    ``source`` has the data if they come from Python code. ``reasons`` say why this recipe was chosen, if it was;
    ``limit`` is the end of a time budget.
    """

    folder: RunFolder
    recipe: Recipe
    command: str
    source: DataSource | None = None
    reasons: tuple[str, ...] = ()
    limit: TimeLimit | None = None

    @property
    def title(self) -> str:
        """Data, method and seed."""
        return f"{self.recipe.data.spec} {self.recipe.method} seed {self.recipe.seed}"


def names_teachers(layer: Mapping[str, Any]) -> bool:
    """Whether settings replace the teachers of a recipe."""
    distill = layer.get("distill")
    return isinstance(distill, Mapping) and "teachers" in distill


def plan_runs(request: TrainRequest) -> list[PlannedRun]:
    """The runs of a request, each with its folder. Nothing is written.

    Raises:
        TailcloudError: the request is not valid, as far as that shows before the data are opened.
    """
    if request.like is not None:
        request = with_recipe_of_run(request, request.like)
    if request.resume and request.time_budget is not None and len(request.seeds) < 2:
        raise UsageError("a time budget is for a new run; a run that is resumed keeps the recipe it was started with")
    if request.resume and request.out and not request.recipes and not request.seeds:
        return [existing_run(RunFolder(request.out), request)]
    if len(set(request.seeds)) < len(request.seeds):
        raise UsageError(f"each seed can be given once, not {', '.join(map(str, request.seeds))}")
    for reference in request.recipes if request.resume else []:
        if isinstance(reference, str) and RunFolder(Path(reference)).exists:
            raise UsageError(f'a run is named with --out: "tailcloud train --resume --out {reference}"')
    references: Sequence[str | Recipe | None] = request.recipes or [None]
    runs = [run for reference in references for run in runs_of_recipe(reference, request)]
    folders = [run.folder.path for run in runs]
    if len(set(folders)) < len(folders):
        raise UsageError(
            f"two of these recipes would train in {max(folders, key=folders.count)}; train them one by one"
        )
    return runs


def with_recipe_of_run(request: TrainRequest, like: Path) -> TrainRequest:
    """The request with the recipe of a run, and the method that the settings name."""
    from tailcloud.launch.like_run import recipe_as_trained, recipe_like

    if request.recipes:
        raise UsageError(f"--like {like} takes the recipe of that run; leave out {request.names()[0]}, or --like")
    if request.time_budget is not None:
        raise UsageError(f"--like {like} trains as long as that run, by epochs; leave out --time-budget, or --like")
    layers = request.overrides()
    specs = [spec for layer in layers if (spec := spec_of(layer, ""))]
    run = recipe_as_trained(RunFolder(like), specs[-1] if specs else None)
    methods = [str(layer["method"]) for layer in layers if "method" in layer]
    return replace(request, recipes=[recipe_like(run, methods[-1] if methods else run.method)])


def check_settings(request: TrainRequest, recipe: Recipe, *, choosing: bool) -> None:
    """Refuse teachers for a run whose recipe is chosen, and for any other run an objective that chooses nothing."""
    if choosing and recipe.distill:
        raise UsageError(
            "no recipe is chosen for a run with teachers, which cost time at every step; name one, such as own/gcl, "
            "or take that of a run with --like"
        )
    selection = recipe.selection
    asked = selection.objective and any("objective" in layer.get("selection", {}) for layer in request.overrides())
    if asked and not choosing and selection.stage == selection.pick == "last":
        raise UsageError(
            f'selection.objective = "{selection.objective}" has no effect, because this recipe keeps the last epoch of '
            "the last stage; add --set selection.stage=best --set selection.split=0.1"
        )


def runs_of_recipe(reference: str | Recipe | None, request: TrainRequest) -> list[PlannedRun]:
    """The runs of one recipe, one for each seed. If a recipe has to be chosen for new runs, it is chosen here."""
    requested = recipe = recipe_of(reference, request.overrides())
    reasons: tuple[str, ...] = ()
    limit: TimeLimit | None = None
    choosing = needs_choice(request, recipe)
    check_settings(request, recipe, choosing=choosing)
    seeds = list(request.seeds) or [recipe.seed]
    folders = {seed: run_folder(reference, with_seed(recipe, seed), request) for seed in seeds}
    new = [seed for seed, folder in folders.items() if not (request.resume and folder.exists)]
    single = len(seeds) == 1 and len(request.recipes) < 2
    unnamed = choosing and request.out is None and not request.resume  # its name has the method that is chosen
    if not unnamed:
        check_folders([folders[seed] for seed in new], request, single=single)
    elif not request.dry_run:
        check_output("--out", folders[seeds[0]].path, folder=True)
    if new:
        check_needs(request, recipe, choosing=choosing)
    if choosing and new:
        others = [folder.recipe() for seed, folder in folders.items() if seed not in new]
        recipe, reasons, limit = (others[0], (), None) if others else choose_recipe(request, requested)
        chosen = [with_seed(recipe, seed) for seed in new]
        renamed = [run_folder(reference, each, request) for each in chosen]
        renamed = free_folders(renamed, reference, chosen, request) if unnamed else renamed
        check_folders(renamed, request, single=single)
        folders |= dict(zip(new, renamed, strict=True))
    return [
        PlannedRun(
            folder,
            with_seed(recipe, seed),
            request.command(reference, seed, folder),
            source=request.source,
            reasons=reasons,
            limit=limit,
        )
        if seed in new
        else existing_run(folder, request, None if choosing else with_seed(recipe, seed))
        for seed, folder in folders.items()
    ]


def recipe_of(reference: str | Recipe | None, overrides: Sequence[Mapping[str, Any]]) -> Recipe:
    """The recipe of a reference (a name, a file or a recipe), with settings."""
    if not isinstance(reference, Recipe):
        return load_recipe(reference, overrides)
    table = reference.model_dump(exclude_none=True)
    for layer in overrides:
        table = merge(table, layer)
    with settings_named("the recipe", overrides):
        return resolve(table, "the recipe")


def needs_choice(request: TrainRequest, recipe: Recipe) -> bool:
    """Whether a recipe has to be chosen: none is named, and the data have none, or there is a time budget."""
    if request.recipes and request.time_budget is not None:
        raise UsageError(
            f"a time budget chooses a recipe, and {request.names()[0]} is a recipe already; leave out one of them, or "
            "shorten the recipe with --set stage1.epochs=N"
        )
    return not request.recipes and (parse_spec(recipe.data.spec)[0] == OWN or request.time_budget is not None)


def choose_recipe(request: TrainRequest, requested: Recipe) -> tuple[Recipe, tuple[str, ...], TimeLimit | None]:
    """The recipe for the data of a request, the reasons for it, and the time limit; several runs share the time budget.

    ``requested`` is the recipe of the request as far as its settings decide it.
    """
    from tailcloud.auto_recipe import choose

    budget, began = budget_seconds(request.time_budget), time.perf_counter()
    device, overrides = pick_device(request.device), request.overrides()
    dataset = open_for_choice(requested, request.source)
    logger.info("timing a few steps to choose a recipe")
    runs = max(1, len(request.seeds))
    opened = partial(open_data, source=request.source)
    timed = for_timing(dataset, overrides)
    resizable = request.source is None or request.source.resizable
    share = budget and budget / runs
    with freed_memory_kept(on_cpu=device.type == "cpu"):  # as in training, which is timed
        choice = choose(timed, device, share, overrides, request.started, opened, resizable=resizable)
    recipe = load_recipe(None, [choice.settings, *overrides])
    chosen, asked = recipe.data, requested.data
    if (chosen.size, chosen.size, chosen.fit, chosen.max_count) == (*dataset.shape[:2], asked.fit, asked.max_count):
        note_same_images(chosen, asked)
    return recipe, tuple(choice.reasons), time_limit(choice, budget, request.started or began)


def time_limit(choice: "Choice", budget: float | None, started: float) -> TimeLimit | None:
    """The end of a budget that began at ``started``, by ``time.perf_counter``; None without a budget."""
    if budget is None:
        return None
    ends = time.time() + budget - (time.perf_counter() - started)
    finishing = max(choice.finishing_seconds, FINISHING_SHARE * budget)
    return TimeLimit(ends, choice.stage_seconds, finishing, LEAST_SHARE * budget)


def budget_seconds(budget: str | float | None) -> float | None:
    """A time budget in seconds: of text such as "10m", or of a number."""
    from tailcloud.auto_recipe import parse_budget

    if budget is None:
        return None
    if isinstance(budget, str):
        return parse_budget(budget)
    if not budget > 0:
        raise UsageError(f'time_budget = {budget} should be more than 0 seconds, or text such as "10m"')
    return float(budget)


def for_timing(dataset: Dataset, overrides: Sequence[Mapping[str, Any]]) -> Dataset:
    """The data with about as many test images as the run will have: the time of a run includes their evaluation."""
    selections = [layer["selection"] for layer in overrides if "selection" in layer]
    split = next((layer["split"] for layer in reversed(selections) if "split" in layer), None)
    if has_test(dataset) or split == 0:
        return dataset
    return replace(dataset, test=hold_out(dataset, split or EXPECTED_SPLIT).val or dataset.train)


def check_needs(request: TrainRequest, recipe: Recipe, *, choosing: bool) -> None:
    """Refuse new runs that lack a device, a package, weights or teachers, before a recipe is chosen for them."""
    decided = not choosing or weights_are_decided(request, recipe)
    check_machine(recipe, pick_device(request.device), weights=decided, download=not request.dry_run)
    if not decided and recipe.model.pretrained:
        check_tag(recipe.model.pretrained)
    check_teachers(recipe)


def weights_are_decided(request: TrainRequest, recipe: Recipe) -> bool:
    """Whether the weights are known before a recipe is chosen: they are a file, or the request names the backbone."""
    from tailcloud.weights.resolve import is_file_name

    models = [layer["model"] for layer in request.overrides() if "model" in layer]
    return is_file_name(recipe.model.pretrained or "") or any("backbone" in model for model in models)


def check_tag(weights: str) -> None:
    """Refuse an unknown name of weights before anything is timed: without a backbone it is of the default network."""
    from tailcloud.auto_recipe.candidates import PRETRAINED_BACKBONE
    from tailcloud.weights.resolve import find_entry

    find_entry(PRETRAINED_BACKBONE, weights)


def check_machine(recipe: Recipe, device: torch.device, *, weights: bool = True, download: bool = True) -> None:
    """Refuse a recipe that needs a device or a package that is not here, or a file of weights that cannot be had.

    Args:
        recipe: the recipe.
        device: where it is to run.
        weights: whether its weights are looked at.
        download: whether weights that are not here are downloaded; if not, a note says what would be.
    """
    from tailcloud.training.tensorboard_log import check_logging

    check_engine(recipe.engine, device)
    check_logging(recipe.logging)
    if recipe.data.cache not in {"none", "ram"}:
        check_output("data.cache =", expand_home(recipe.data.cache), folder=True)
    if weights and recipe.model.pretrained:
        check_weights(recipe.model, recipe.model.pretrained, recipe.root, download=download)


def check_teachers(recipe: Recipe) -> None:
    """Refuse teachers that are no finished runs, or have changed since the recipe recorded them."""
    from tailcloud.training.teachers import check_digests

    if recipe.distill:
        check_digests(recipe.distill)


def check_weights(model: Model, weights: str, root: str, *, download: bool) -> None:
    """Find the weights of a model, and download them if they are not here."""
    from tailcloud.weights.resolve import is_file_name, resolve_weights, to_download

    if not download and not is_file_name(weights) and (sentence := to_download(model.backbone, weights)):
        logger.warning(sentence)
        return
    resolve_weights(model.backbone, weights, root, sha256=model.weights_sha256, download=download)


def check_folders(folders: Sequence[RunFolder], request: TrainRequest, *, single: bool) -> None:
    """Refuse folders in which no new run can start."""
    for folder in folders:
        if request.resume and single:
            raise TailcloudError(no_run_to_resume(folder, request))
        if not request.dry_run:
            folder.check_free()


def no_run_to_resume(folder: RunFolder, request: TrainRequest) -> str:
    """That there is no run; if the request names no folder, also which other runs could be resumed."""
    empty, start = f"{folder.path} holds no run to resume", "leave out --resume to start one"
    if request.out:
        return f"{empty}; {start}"
    if unfinished := unfinished_runs(RUNS):
        runs = some_of([str(path) for path in unfinished], LISTED_RUNS)
        return f"{empty}; {start}, or name the run with --out (unfinished: {runs})"
    return f"{empty}, and no run below {RUNS} is unfinished; {start}, or name the folder of the run with --out"


def unfinished_runs(parent: Path) -> list[Path]:
    """The runs below a folder that were started and not trained to their end, those that changed last first."""
    found = [RunFolder(file.parent) for file in parent.rglob("recipe.toml")]
    started = {run.path: run.path.stat().st_mtime for run in found if not run.finished}
    return sorted(started, key=lambda path: -started[path])


def run_folder(reference: str | Recipe | None, recipe: Recipe, request: TrainRequest) -> RunFolder:
    """``--out`` is the run folder itself; with several recipes or seeds it holds a folder for each."""
    base = request.out or RUNS / f"{short_name(recipe.data.spec)}-{recipe.method}"
    if request.out and isinstance(reference, str) and len(request.recipes) > 1:
        base = base / Path(reference).name.removesuffix(".toml")
    if base != request.out or len(request.seeds) > 1:
        refuse_run_as_parent(request.out)
    if len(request.seeds) > 1:
        return RunFolder(base / f"seed{recipe.seed}")
    return RunFolder(base if request.out else base.with_name(f"{base.name}-seed{recipe.seed}"))


def free_folders(
    usual: list[RunFolder], reference: str | Recipe | None, recipes: Sequence[Recipe], request: TrainRequest
) -> list[RunFolder]:
    """The ``usual`` folders of new runs; with a number at the end of their name if there is something in one.

    After photographs were added, the same command trains a new run beside the one before.
    """
    first = usual[0].path.parent if len(request.seeds) > 1 else usual[0].path
    found, latest, number = usual, usual, 1
    while any(map(is_taken, found)) and not request.dry_run:
        latest, number = found, number + 1
        named = replace(request, out=first.with_name(f"{first.name}-{number}"))
        found = [run_folder(reference, recipe, named) for recipe in recipes]
    if number > 1:
        started = next((folder.path for folder in latest if folder.exists and not folder.finished), None)
        way_on = f'; "tailcloud train --resume --out {started}" continues the last one' if started else ""
        logger.warning(f"{first} has a run already; this one is in {first.name}-{number}{way_on}")
    return found


def is_taken(folder: RunFolder) -> bool:
    """Whether there is something in the place of a folder."""
    path = folder.path
    return os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir()))


def short_name(spec: str) -> str:
    """The name of the data in the name of a run folder; for a path, the name of its file or folder."""
    return (Path(spec).resolve().stem or "images") if is_path(spec) else spec.replace(":", "-")


def refuse_run_as_parent(output: Path | None) -> None:
    """Refuse a run folder as the parent of several run folders."""
    if output and RunFolder(output).exists:
        raise UsageError(f"{output} is a run folder; choose another folder as the parent of several runs")


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with another seed."""
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"--seed {seed} must be a whole number from 0 to {LARGEST_SEED}")
    return recipe.model_copy(update={"seed": seed})


def existing_run(folder: RunFolder, request: TrainRequest, requested: Recipe | None = None) -> PlannedRun:
    """A run that exists, with its own recipe. A request for another recipe is refused; another data folder is not."""
    own = folder.recipe()
    requested = requested or load_recipe(str(folder.recipe_file), request.overrides())
    for field, then, now in differences(own.substance(), requested.substance()):
        raise UsageError(
            f"{folder.path} was started with {field} = {then}, and this command has {now}; resume it with "
            f'"tailcloud train --resume --out {folder.path}", or start a new run in another folder'
        )
    recipe = own.model_copy(update={"root": named_root(request.root, own.root)})
    return PlannedRun(folder, recipe, folder.command(), source=request.source)
