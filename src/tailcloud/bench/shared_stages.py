"""Runs with the same first stage train it once: one run owns it, the others start from its end."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tailcloud.bench.plan import BenchRun
from tailcloud.recipe import Recipe
from tailcloud.runs.fork import MAY_DIFFER, first_stage_file


@dataclass(frozen=True)
class BenchStep:
    """A run of a bench, and the run whose first stage it starts from; None if it trains its own."""

    run: BenchRun
    parent: BenchRun | None = None


def first_stage(recipe: Recipe) -> str:
    """Everything that determines a first stage: recipes with the same text share it."""
    substance = recipe.substance()
    return json.dumps({key: substance[key] for key in substance if key not in MAY_DIFFER}, sort_keys=True)


def steps_of(runs: Sequence[BenchRun]) -> list[BenchStep]:
    """A step for every run that is not finished, in the given order. Runs that were started are resumed."""
    groups: dict[str, list[BenchRun]] = {}
    for run in runs:
        groups.setdefault(first_stage(run.recipe), []).append(run)
    owners = {key: max(members, key=lending_rank) for key, members in groups.items()}
    steps = []
    for run in (run for run in runs if not run.folder.finished):
        owner = owners[first_stage(run.recipe)]
        steps.append(BenchStep(run, None if run is owner or run.folder.exists else owner))
    return steps


def lending_rank(run: BenchRun) -> tuple[bool, bool, bool, bool]:
    """Sort key for the owner of a first stage: a run that has it, one that was started, one with no later epochs.

    A finished run whose checkpoints were deleted cannot lend its first stage, and will not train it again.
    """
    finished, (_, *later) = run.folder.finished, run.recipe.stages.values()
    lends = finished and first_stage_file(run.folder, run.recipe).is_file()
    return lends, not finished and run.folder.exists, not finished, not any(stage.epochs for stage in later)


def dependency_waves(steps: Sequence[BenchStep]) -> list[list[BenchStep]]:
    """First the runs that can start now, then those that wait for another run's first stage."""
    ready = [step for step in steps if step.parent is None or step.parent.folder.finished]
    later = [step for step in steps if step not in ready]
    return [wave for wave in (ready, later) if wave]
