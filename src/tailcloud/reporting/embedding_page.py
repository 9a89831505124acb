"""The page about embeddings: t-SNE maps of several runs side by side (figures 1 and 4 of the GCL paper), and measures.

A t-SNE map keeps neighbours together and distorts everything else, so each map comes with measures of the embedding
itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from markupsafe import Markup

from tailcloud.data import Dataset, hold_out, open_dataset
from tailcloud.data.readers.open_path import named_root
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
from tailcloud.reporting import report_path, write_page
from tailcloud.reporting.figures.embedding_maps import SEED, SPLITS, MapSelection, draw_map, map_runs, select_images
from tailcloud.reporting.labels import seed_text
from tailcloud.reporting.render import render
from tailcloud.reporting.run_record import RunRecord, read_run
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.evaluate import embed_run

MEASURES = {"within": 2, "between": 2, "overlap": 2, "near": 1}  # name → decimal places


@dataclass(frozen=True)
class EmbeddedRun:
    """A run, its name on the page, its embeddings and their measures; ``unit`` is the unit of the spreads."""

    run: RunRecord
    label: str
    splits: dict[str, Embedding]
    spreads: dict[str, Spread]
    near: dict[str, Vectors]
    unit: float

    def groups(self, split: str, measure: str) -> dict[str, float | None]:
        """A measure of one split, averaged over the classes of each shot group, and over all classes."""
        values = self.near[split] if measure == "near" else getattr(self.spreads[split], measure)
        return by_group(values, self.run.result.dataset.counts)

    def rows(self, split: str) -> list[tuple[str, list[str]]]:
        """Many, medium, few and all, each with its measures as text."""
        columns = [(self.groups(split, measure), digits) for measure, digits in MEASURES.items()]
        return [(group, [number(column[group], digits) for column, digits in columns]) for group in (*GROUPS, "all")]

    def few_to_many_spread(self, split: str) -> float | None:
        """Spread within few-shot classes, divided by that within many-shot classes."""
        spreads = self.groups(split, "within")
        return _ratio(spreads["few"], spreads["many"])

    def test_to_train_spread(self, group: str) -> float | None:
        """Spread of the test images of a shot group, divided by that of its training images."""
        return _ratio(self.groups("test", "within")[group], self.groups("train", "within")[group])


def write_embedding(runs: Sequence[Path], out: Path | None, root: str | None, device: torch.device) -> Path:
    """Write the page about the embeddings of runs on the same images, and return its path.

    Without ``out`` it is embedding.html, in the run folder or in the one that all runs have in common. ``root`` is the
    folder with the data files, by default that of the first run's recipe.
    """
    folders = list({folder.resolve(): folder for folder in runs}.values())
    target = report_path(folders, out, "embedding.html")
    return write_page(target, embedding_page(embed_runs(folders, root, device)))


def embed_runs(runs: Sequence[Path], root: str | None, device: torch.device) -> list[EmbeddedRun]:
    """The embeddings of runs on the same images, and their measures."""
    records = [read_run(folder) for folder in runs]
    dataset = _data(records, root)
    return [_embed(run, label, dataset, device) for run, label in zip(records, _labels(records), strict=True)]


def embedding_page(embedded: Sequence[EmbeddedRun]) -> str:
    """The page: maps of the training and test images of every run, each with its measures."""
    first = embedded[0]
    selection = select_images(first.run.result, {split: first.splits[split].labels for split in SPLITS})
    maps = map_runs(selection, [one.splits for one in embedded])
    drawings = {
        split: [(one, _draw(selection, one, points, split)) for one, points in zip(embedded, maps, strict=True)]
        for split in SPLITS
    }
    headline = _headline(embedded)
    return render(
        "embedding.html.j2",
        title=headline,
        headline=headline,
        result=first.run.result,
        selection=selection,
        drawings=drawings,
        splits=SPLITS,
        embedded=embedded,
        SEED=SEED,
        perplexity=f"{PERPLEXITY:g}",
    )


def _draw(selection: MapSelection, one: EmbeddedRun, points: dict[str, Vectors], split: str) -> Markup:
    near = percent(one.groups(split, "near")["all"])
    return draw_map(
        selection,
        points,
        split,
        f"{one.label}; {near} of the images are nearest to the training centre of their own class",
    )


def _headline(embedded: Sequence[EmbeddedRun]) -> str:
    group = "few" if embedded[0].run.result.group_sizes["few"] else "all"
    values = ", ".join(f"{one.label} {percent(one.groups('test', 'near')[group])}" for one in embedded)
    images = "Few-shot test images" if group == "few" else "Test images"
    return f"{images} of {embedded[0].run.result.dataset.spec} nearest to the centre of their own class: {values}"


def _labels(runs: Sequence[RunRecord]) -> list[str]:
    """The shortest names that distinguish the runs: the method, the method with its seed, or the folder."""
    methods = [run.result.method for run in runs]
    seeded = [f"{run.result.method}, seed {seed_text(run.result)}" for run in runs]
    return next(
        (names for names in (methods, seeded) if len(set(names)) == len(runs)), [str(run.folder) for run in runs]
    )


def _data(runs: Sequence[RunRecord], root: str | None) -> Dataset:
    """The data set that all of these runs were trained on."""
    first = runs[0]
    data = first.result.dataset
    for run in runs:
        other = run.result.dataset
        if other.fingerprint != data.fingerprint:
            raise UsageError(
                f"{run.folder} was trained on {other.spec} with fingerprint {other.fingerprint}, and {first.folder} on "
                f"{data.spec} with {data.fingerprint}: only embeddings of the same images can be compared"
            )
    recipe = RunFolder(first.folder).recipe()
    dataset = hold_out(
        open_dataset(recipe.data.spec, named_root(root, recipe.root), recipe.data.read_options), recipe.selection.split
    )
    if dataset.fingerprint != data.fingerprint:
        raise TailcloudError(
            f"the images of {data.spec} in {root or recipe.root} are not those that {first.folder} was trained on "
            f"(fingerprint {dataset.fingerprint}, not {data.fingerprint}); pass the right folder with --root"
        )
    return dataset


def _embed(run: RunRecord, label: str, dataset: Dataset, device: torch.device) -> EmbeddedRun:
    splits = embed_run(run.folder, dataset, device)
    unit = centre_distance(splits["train"], dataset.classes)
    spreads = {split: spread(splits[split], dataset.classes).divided(unit) for split in SPLITS}
    near = {split: nearest_centre_accuracy(splits[split], splits["train"], dataset.classes) for split in SPLITS}
    return EmbeddedRun(run, label, splits, spreads, near, unit)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
