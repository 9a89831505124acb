"""Which runs fill a table: a recipe, a folder and a command for each row, data set and seed."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tailcloud import plugins
from tailcloud.bench.table import Row, Table
from tailcloud.errors import UsageError
from tailcloud.recipe import Recipe, load_recipe, parse_setting
from tailcloud.runs.folder import RunFolder

OF_THE_TABLE = {"data", "method", "seed", "root"}  # fields that --set must leave alone
NO_MATTER = {"engine", "watch"}  # fields that change nothing but rounding and what is written down


@dataclass(frozen=True)
class Protocol:
    """How a table is filled: seeds, and what differs from the recipes."""

    seeds: Sequence[int] = (0, 1, 2)
    epochs: int | None = None
    settings: Sequence[str] = ()
    root: str | None = None

    def __post_init__(self) -> None:
        """Refuse what would make another table."""
        if self.epochs is not None and self.epochs < 1:
            raise UsageError(f"--epochs {self.epochs} must be at least 1")
        if len(set(self.seeds)) < len(self.seeds):
            raise UsageError(f"each seed can be given once, not {', '.join(map(str, self.seeds))}")
        for setting in self.settings:
            if OF_THE_TABLE & set(parse_setting(setting)):
                raise UsageError(f"--set {setting} is the table's own business; choose with --only, --seed and --root")

    @property
    def changes(self) -> list[str]:
        """The settings that change results."""
        return [setting for setting in self.settings if not NO_MATTER & set(parse_setting(setting))]

    @property
    def label(self) -> str:
        """What sets these figures apart from the real ones; empty for the protocol of the recipes."""
        parts = [f"shortened: stage 1 has at most {self.epochs} epochs"] if self.epochs else []
        return "; ".join([*parts, *([f"changed: {', '.join(self.changes)}"] if self.changes else [])])

    @property
    def folder(self) -> str:
        """A name for the folder that keeps these runs apart from others; empty for the protocol of the recipes."""
        parts = [f"shortened-{self.epochs}"] if self.epochs else []
        if self.changes:
            parts.append(f"changed-{sha256(repr(self.changes).encode()).hexdigest()[:8]}")
        return "-".join(parts)


@dataclass(frozen=True)
class Planned:
    """One run of a table."""

    row: Row
    spec: str
    folder: RunFolder
    recipe: Recipe
    command: str

    @property
    def title(self) -> str:
        """The run in a few words."""
        return f"{self.spec} {self.row.key} seed {self.recipe.seed}"


@dataclass
class Plan:
    """The runs of a table, and sentences for the cells that no run can fill."""

    runs: list[Planned] = field(default_factory=list)
    impossible: dict[tuple[str, str], str] = field(default_factory=dict)  # (row, spec) → why


def plan(table: Table, protocol: Protocol, out: Path) -> Plan:
    """The runs of a table, column by column; a row that cannot be a recipe is a sentence, unless none can."""
    made = Plan()
    for spec in table.columns:
        for row in table.rows:
            try:
                made.runs += runs_of(row, spec, protocol, out)
            except UsageError as error:
                made.impossible[row.key, spec] = str(error)
    if made.impossible and not made.runs:
        raise UsageError(next(iter(made.impossible.values())))
    return made


def runs_of(row: Row, spec: str, protocol: Protocol, out: Path) -> list[Planned]:
    """The runs of one cell: one for each seed."""
    reference = f"{spec.partition(':')[0]}/{row.method}"
    where = {"data": spec} | ({"root": protocol.root} if protocol.root else {})
    plain = load_recipe(reference, [*map(parse_setting, row.settings), where])
    settings = [*row.settings, *changed(plain, protocol)]
    runs = []
    for seed in protocol.seeds:
        recipe = load_recipe(reference, [*map(parse_setting, settings), where, {"seed": seed}])
        folder = RunFolder(out / f"{spec.replace(':', '-')}-{row.key}-seed{seed}")
        runs.append(Planned(row, spec, folder, recipe, command(reference, where, settings, seed)))
    return runs


def changed(plain: Recipe, protocol: Protocol) -> list[str]:
    """The settings of a protocol for one recipe: those of a stage only where the recipe has it."""
    settings = []
    if protocol.epochs and protocol.epochs < plain.stage1.epochs:
        settings.append(f"stage1.epochs={protocol.epochs}")
        for name, stage in plain.stages.items():
            if name != "stage1" and stage.epochs:
                share = stage.epochs / plain.stage1.epochs
                settings.append(f"{name}.epochs={max(1, round(share * protocol.epochs))}")
    absent = {"stage2"} - set(plain.stages)  # every recipe has a first stage, and may get a third
    return settings + [setting for setting in protocol.settings if not absent & set(parse_setting(setting))]


def command(reference: str, where: dict[str, str], settings: Sequence[str], seed: int) -> str:
    """The command that makes the same run alone."""
    words = ["tailcloud", "train", reference]
    for option, value in where.items():
        words += [f"--{option}", value]
    for setting in settings:
        words += ["--set", setting]
    return shlex.join([*words, *plugins.plugin_arguments(), "--seed", str(seed)])
