"""The page about embeddings: maps of several runs side by side (figures 1 and 4 of the GCL paper), and measures.

A t-SNE map keeps neighbours together and distorts everything else, so that beside each map stands what was measured in
the embedding itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from markupsafe import Markup

from tailcloud.data import Dataset, hold_out, open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.evaluation.embeddings import (
    Embedding,
    Spread,
    Vectors,
    by_group,
    centre_distance,
    nearest_centre_accuracy,
    spread,
)
from tailcloud.evaluation.projection import PERPLEXITY
from tailcloud.formatting import number, percent
from tailcloud.profile import GROUPS
from tailcloud.reporting import page_place, write_page
from tailcloud.reporting.figures.embedding_maps import PARTS, SEED, Scene, draw_map, map_runs, set_scene
from tailcloud.reporting.render import render
from tailcloud.reporting.run_record import Run, read_run
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.embed import embed_run

MEASURES = {"within": 2, "between": 2, "overlap": 2, "near": 1}  # with their digits


@dataclass(frozen=True)
class Embedded:
    """A run, what it is called on the page, its embeddings, their measures, and the unit of the spreads."""

    run: Run
    label: str
    parts: dict[str, Embedding]
    spreads: dict[str, Spread]
    near: dict[str, Vectors]
    unit: float

    def groups(self, part: str, measure: str) -> dict[str, float | None]:
        """A measure of one part by shot group: the means over its classes, and over all classes."""
        values = self.near[part] if measure == "near" else getattr(self.spreads[part], measure)
        return by_group(values, self.run.result.dataset.counts)

    def rows(self, part: str) -> list[tuple[str, list[str]]]:
        """Many, medium, few and all, each with its measures in words."""
        columns = [(self.groups(part, measure), digits) for measure, digits in MEASURES.items()]
        return [(group, [number(column[group], digits) for column, digits in columns]) for group in (*GROUPS, "all")]

    def tail_span(self, part: str) -> float | None:
        """How far few-shot classes spread, as a multiple of how far many-shot ones do."""
        spans = self.groups(part, "within")
        return _over(spans["few"], spans["many"])

    def cover(self, group: str) -> float | None:
        """How far the test images of a shot group spread, as a multiple of how far its training images do."""
        return _over(self.groups("test", "within")[group], self.groups("train", "within")[group])


def write_embedding(runs: Sequence[Path], out: Path | None, root: str | None, device: torch.device) -> Path:
    """Write the page about the embeddings of some runs on the same images, and say where it is.

    Without ``out`` it is embedding.html, in the run folder or in the one that all runs have in common. ``root`` is the
    folder that the data files are in, by default that of the first run's recipe.
    """
    folders = list({folder.resolve(): folder for folder in runs}.values())
    target = page_place(folders, out, "embedding.html")
    read = [read_run(folder) for folder in folders]
    dataset = _data(read, root)
    labels = _labels(read)
    embedded = [_embedded(run, label, dataset, device) for run, label in zip(read, labels, strict=True)]
    return write_page(target, embedding_page(embedded))


def embedding_page(embedded: Sequence[Embedded]) -> str:
    """The page: training and test maps of every run, each with its measures."""
    first = embedded[0]
    scene = set_scene(first.run.result, {part: first.parts[part].labels for part in PARTS})
    maps = map_runs(scene, [one.parts for one in embedded])
    drawings = {
        part: [(one, _drawn(scene, one, points, part)) for one, points in zip(embedded, maps, strict=True)]
        for part in PARTS
    }
    headline = _headline(embedded)
    return render(
        "embedding.html.j2",
        title=headline,
        headline=headline,
        result=first.run.result,
        scene=scene,
        drawings=drawings,
        parts=PARTS,
        embedded=embedded,
        SEED=SEED,
        perplexity=f"{PERPLEXITY:g}",
    )


def _drawn(scene: Scene, one: Embedded, points: dict[str, Vectors], part: str) -> Markup:
    near = percent(one.groups(part, "near")["all"])
    return draw_map(scene, points, part, f"{one.label}; {near} of a class lie nearest to its own training centre")


def _headline(embedded: Sequence[Embedded]) -> str:
    group = "few" if embedded[0].run.result.group_sizes["few"] else "all"
    values = ", ".join(f"{one.label} {percent(one.groups('test', 'near')[group])}" for one in embedded)
    whose = "Few-shot test images" if group == "few" else "Test images"
    return f"{whose} of {embedded[0].run.result.dataset.spec} nearest to their own class's centre: {values}"


def _labels(runs: Sequence[Run]) -> list[str]:
    """The shortest names that tell the runs apart: the method, with its seed, or the folder."""
    methods = [run.result.method for run in runs]
    seeded = [f"{run.result.method}, seed {run.result.protocol.seed}" for run in runs]
    return next(
        (names for names in (methods, seeded) if len(set(names)) == len(runs)), [str(run.folder) for run in runs]
    )


def _data(runs: Sequence[Run], root: str | None) -> Dataset:
    """The images that all of these runs were trained on."""
    first = runs[0]
    data = first.result.dataset
    for run in runs:
        other = run.result.dataset
        if other.fingerprint != data.fingerprint:
            raise UsageError(
                f"{run.folder} was trained on {other.spec} with fingerprint {other.fingerprint}, and {first.folder} on "
                f"{data.spec} with {data.fingerprint}: embeddings are compared on the same images, one page for each"
            )
    recipe = RunFolder(first.folder).recipe()
    dataset = hold_out(
        open_dataset(recipe.data.spec, root or recipe.root, recipe.data.read_options), recipe.selection.split
    )
    if dataset.fingerprint != data.fingerprint:
        raise TailcloudError(
            f"the images of {data.spec} in {root or recipe.root} are not those that {first.folder} was trained on "
            f"(fingerprint {dataset.fingerprint}, then {data.fingerprint}); name the right folder with --root"
        )
    return dataset


def _embedded(run: Run, label: str, dataset: Dataset, device: torch.device) -> Embedded:
    parts = embed_run(run.folder, dataset, device)
    unit = centre_distance(parts["train"], dataset.classes)
    spreads = {part: spread(parts[part], dataset.classes).divided(unit) for part in PARTS}
    near = {part: nearest_centre_accuracy(parts[part], parts["train"], dataset.classes) for part in PARTS}
    return Embedded(run, label, parts, spreads, near, unit)


def _over(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
