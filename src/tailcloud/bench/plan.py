"""Which runs fill a table: a recipe, a folder and a command for each row, data set and seed.

Runs with the same first stage train it once: a ``BenchStep`` names the run that it starts from.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from tailcloud.bench.table import TABLE_FIELDS, CellKey, PaperTable, TableRow
from tailcloud.data.benchmarks.cifar import TUNE
from tailcloud.errors import UsageError
from tailcloud.launch.command_line import command_line
from tailcloud.recipe import Recipe, load_recipe, parse_setting
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import MAY_DIFFER, first_stage_file

NEUTRAL_FIELDS = {"engine", "logging"}  # recipe fields that change results by rounding at most


@dataclass(frozen=True)
class BenchProtocol:
    """How a table is filled: the seeds, and what differs from the recipes."""

    seeds: Sequence[int] = (0, 1, 2)
    epochs: int | None = None
    settings: Sequence[str] = ()
    root: str | None = None

    def __post_init__(self) -> None:
        """Refuse wrong values, and settings that the table decides."""
        if self.epochs is not None and self.epochs < 1:
            raise UsageError(f"--epochs {self.epochs} must be at least 1")
        if len(set(self.seeds)) < len(self.seeds):
            raise UsageError(f"each seed can be given once, not {', '.join(map(str, self.seeds))}")
        for setting in self.settings:
            fixed = TABLE_FIELDS & set(parse_setting(setting))
            if fixed:
                raise UsageError(
                    f"--set {setting}: the table decides {min(fixed)}; use --only, --method, --seed or --root"
                )

    @property
    def changes(self) -> list[str]:
        """The settings that change results."""
        return [setting for setting in self.settings if not NEUTRAL_FIELDS & set(parse_setting(setting))]

    @property
    def label(self) -> str:
        """What differs from the recipes, as text; empty if nothing does."""
        parts = [f"shortened: stage 1 has at most {self.epochs} epochs"] if self.epochs else []
        return "; ".join([*parts, *([f"changed: {', '.join(self.changes)}"] if self.changes else [])])

    @property
    def folder(self) -> str:
        """The subfolder for runs that differ from the recipes; empty if nothing differs."""
        parts = [f"shortened-{self.epochs}"] if self.epochs else []
        if self.changes:
            parts.append(f"changed-{sha256(repr(self.changes).encode()).hexdigest()[:8]}")
        return "-".join(parts)


@dataclass(frozen=True)
class BenchRun:
    """One run of a table."""

    row: TableRow
    spec: str
    folder: RunFolder
    recipe: Recipe
    command: str

    @property
    def title(self) -> str:
        """A short name: data set, row and seed."""
        return f"{self.spec} {self.row.key} seed {self.recipe.seed}"


@dataclass(frozen=True)
class BenchStep:
    """A run of a bench, and the run that it takes its first stage from; None if it trains its own."""

    run: BenchRun
    parent: BenchRun | None = None


@dataclass
class BenchPlan:
    """The runs of a table, and an error message for each cell that has no valid recipe."""

    runs: list[BenchRun] = field(default_factory=list)
    impossible: dict[CellKey, str] = field(default_factory=dict)  # → why


def plan_bench(table: PaperTable, protocol: BenchProtocol, out: Path) -> BenchPlan:
    """The runs of a table, column by column. Raises if no cell has a valid recipe."""
    plan = BenchPlan()
    for spec in table.columns:
        for row in table.rows:
            try:
                plan.runs += cell_runs(row, spec, protocol, out)
            except UsageError as error:
                plan.impossible[row.key, spec] = str(error)
    plan.runs += other_teachers(table, plan, protocol, out)
    leave_out_untaught(plan)
    if plan.impossible and not plan.runs:
        raise UsageError(next(iter(plan.impossible.values())))
    return plan


def other_teachers(table: PaperTable, plan: BenchPlan, protocol: BenchProtocol, out: Path) -> list[BenchRun]:
    """Runs of other seeds that are needed as teachers, of rows of the table that have a valid recipe."""
    rows, planned = {row.key: row for row in table.rows}, {run.folder.path for run in plan.runs}
    taught = [run for run in plan.runs if run.row.teacher in rows and run.row.teacher_seeds and not run.folder.finished]
    found: dict[Path, BenchRun] = {}
    for run in (run for run in taught if (run.row.teacher, run.spec) not in plan.impossible):
        teachers = replace(protocol, seeds=run.row.teacher_seeds)
        found |= {each.folder.path: each for each in cell_runs(rows[run.row.teacher], run.spec, teachers, out)}
    return [run for path, run in found.items() if path not in planned]


def leave_out_untaught(plan: BenchPlan) -> None:
    """Take unfinished runs out of the plan whose teachers are neither in it nor finished."""
    planned = {run.folder.path for run in plan.runs}
    for run in [run for run in plan.runs if run.row.teacher and not run.folder.finished]:
        folders = [RunFolder(teacher) for teacher in teachers_of(run)]
        missing = [folder.path.name for folder in folders if folder.path not in planned and not folder.finished]
        if missing:
            why = plan.impossible.get((run.row.teacher, run.spec))
            reason = f"cannot be trained: {why}" if why else f"this bench does not train; add --only {run.row.teacher}"
            plan.impossible[run.row.key, run.spec] = f"it learns from {', '.join(missing)}, which {reason}"
            plan.runs.remove(run)


def teachers_of(run: BenchRun) -> list[Path]:
    """The run folders of the teachers of a run."""
    return [Path(teacher) for teacher in run.recipe.distill.teachers] if run.recipe.distill else []


def needed_folders(step: BenchStep) -> list[RunFolder]:
    """The run folders without which a step cannot start: that of its first stage, else those of its teachers."""
    return [step.parent.folder] if step.parent else [RunFolder(path) for path in teachers_of(step.run)]


def cell_runs(row: TableRow, spec: str, protocol: BenchProtocol, out: Path) -> list[BenchRun]:
    """The runs of one cell: one for each seed. The images for choosing settings have the recipes of their data set."""
    reference = f"{spec.partition(':')[0].removesuffix(TUNE)}/{row.method}"
    data = {"data": spec} | ({"root": protocol.root} if protocol.root else {})
    runs = []
    for seed in protocol.seeds:
        own = [*row.settings, *teacher_settings(row, spec, seed, out)]
        unchanged = load_recipe(reference, [*map(parse_setting, own), data])
        every = [*own, *protocol_settings(unchanged, protocol)]
        recipe = load_recipe(reference, [*map(parse_setting, every), data, {"seed": seed}])
        folder = cell_folder(row.key, spec, seed, out)
        options = {"--data": spec, "--root": protocol.root or None, "--set": every}
        runs.append(BenchRun(row, spec, folder, recipe, command_line("train", [reference], options, seed)))
    return runs


def cell_folder(key: str, spec: str, seed: int, out: Path) -> RunFolder:
    """The run folder of a row, a data set and a seed."""
    return RunFolder(out / f"{spec.replace(':', '-')}-{key}-seed{seed}")


def teacher_settings(row: TableRow, spec: str, seed: int, out: Path) -> list[str]:
    """The setting that names the teachers of a run, if its row has some."""
    if not row.teacher:
        return []
    folders = [cell_folder(row.teacher, spec, teacher, out) for teacher in row.teacher_seeds or [seed]]
    return [f"distill.teachers={json.dumps([str(folder.path) for folder in folders])}"]


def protocol_settings(recipe: Recipe, protocol: BenchProtocol) -> list[str]:
    """The settings of a protocol for one recipe; settings of a stage that the recipe lacks are left out."""
    settings = []
    if protocol.epochs and protocol.epochs < recipe.stage1.epochs:
        settings.append(f"stage1.epochs={protocol.epochs}")
        for name, stage in recipe.stages.items():
            if name != "stage1" and stage.epochs:
                share = stage.epochs / recipe.stage1.epochs
                settings.append(f"{name}.epochs={max(1, round(share * protocol.epochs))}")
    absent = {"stage2"} - set(recipe.stages)  # every recipe has a first stage, and --set may add a third
    return settings + [setting for setting in protocol.settings if not absent & set(parse_setting(setting))]


def steps_of(runs: Sequence[BenchRun]) -> list[BenchStep]:
    """A step for every run that is not finished, in the given order. Runs that were started are resumed."""
    groups: dict[str, list[BenchRun]] = {}
    for run in runs:
        groups.setdefault(first_stage(run.recipe), []).append(run)
    owners = {key: max(members, key=owner_rank) for key, members in groups.items()}
    steps = []
    for run in (run for run in runs if not run.folder.finished):
        owner = owners[first_stage(run.recipe)]
        steps.append(BenchStep(run, None if run is owner or run.folder.exists else owner))
    return steps


def as_started(run: BenchRun) -> BenchRun:
    """A run whose folder exists, evaluated as often as it was started: older versions had another default."""
    every = run.folder.recipe().selection.every
    selection = run.recipe.selection.model_copy(update={"every": every})
    return replace(run, recipe=run.recipe.model_copy(update={"selection": selection}))


def first_stage(recipe: Recipe) -> str:
    """Everything that determines a first stage: recipes with the same text share it."""
    substance = recipe.training_substance()
    return json.dumps({key: substance[key] for key in substance if key not in MAY_DIFFER}, sort_keys=True)


def owner_rank(run: BenchRun) -> tuple[bool, bool, bool, bool]:
    """Sort key for the owner of a first stage: a run that has it, one that was started, one with no later epochs.

    A finished run without checkpoints does not have its first stage any more, and will not train it again.
    """
    finished, (_, *later) = run.folder.finished, run.recipe.stages.values()
    reusable = finished and first_stage_file(run.folder, run.recipe).is_file()
    return reusable, not finished and run.folder.exists, not finished, not any(stage.epochs for stage in later)


def in_order(steps: Sequence[BenchStep]) -> list[BenchStep]:
    """First the runs that can start now, then those that need one of these, and so on."""
    by_folder = {step.run.folder.path: step for step in steps}

    def depth(step: BenchStep) -> int:
        needed = [by_folder[folder.path] for folder in needed_folders(step) if folder.path in by_folder]
        return 1 + max(map(depth, needed)) if needed else 0

    return sorted(steps, key=depth)
