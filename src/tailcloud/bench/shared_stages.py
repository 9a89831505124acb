"""Runs with the same first stage train it once: one of them owns it, the others start where it ends."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tailcloud.bench.plan import BenchRun
from tailcloud.recipe import Recipe
from tailcloud.runs.fork import MAY_DIFFER, first_stage_file


@dataclass(frozen=True)
class Step:
    """A run, and the one whose first stage it takes; none for a run that trains its own."""

    run: BenchRun
    parent: BenchRun | None = None


def first_stage(recipe: Recipe) -> str:
    """Everything that decides a first stage: two recipes with the same text share it."""
    substance = recipe.substance()
    return json.dumps({key: substance[key] for key in substance if key not in MAY_DIFFER}, sort_keys=True)


def shared(runs: Sequence[BenchRun]) -> list[Step]:
    """Every run that is not finished, in the order given. Runs that were begun go on by themselves."""
    groups: dict[str, list[BenchRun]] = {}
    for run in runs:
        groups.setdefault(first_stage(run.recipe), []).append(run)
    owners = {key: max(members, key=fitness) for key, members in groups.items()}
    steps = []
    for run in (run for run in runs if not run.folder.finished):
        owner = owners[first_stage(run.recipe)]
        steps.append(Step(run, None if run is owner or run.folder.exists else owner))
    return steps


def fitness(run: BenchRun) -> tuple[bool, bool, bool, bool]:
    """Who should own a first stage: a run that has it, one that was begun, one that is nothing but that stage.

    A finished run whose checkpoints were deleted has none to lend, and will not train it again.
    """
    finished, (_, *later) = run.folder.finished, run.recipe.stages.values()
    lends = finished and first_stage_file(run.folder, run.recipe).is_file()
    return lends, not finished and run.folder.exists, not finished, not any(stage.epochs for stage in later)


def waves(steps: Sequence[Step]) -> list[list[Step]]:
    """First the runs that can start at once, then those that wait for another one's first stage."""
    ready = [step for step in steps if step.parent is None or step.parent.folder.finished]
    later = [step for step in steps if step not in ready]
    return [wave for wave in (ready, later) if wave]
