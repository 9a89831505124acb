"""``tailcloud inspect``: what is in a data set, before anything is trained on it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import out, say_note
from tailcloud.formatting import counted

if TYPE_CHECKING:
    from tailcloud.data.inspection.duplicates import Duplicates
    from tailcloud.data.inspection.survey import Survey
    from tailcloud.reporting.inspection_page import Plan

BARS = 40  # rows of the plot at most
WIDTH = 46
LISTED = 10  # pairs and broken files at most


def inspect(
    spec: Annotated[
        str, typer.Argument(help="A folder, list or .npz file of images; or digits-lt, cifar10-lt:100, cifar10 …")
    ] = "digits-lt",
    root: Annotated[str, typer.Option(help="The folder that data files, or the images of a list, are in.")] = "data",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe, as data.size=96."),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page that has all of it.")] = None,
    plan: Annotated[
        bool, typer.Option(help="Say what training would do, and how long; that times a few steps.")
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Show what is in a data set and what is wrong with it: counts, imbalance, sizes, broken files, images twice.

        tailcloud inspect photos --html photos.html

        tailcloud inspect cifar10-lt:100 --root data

    What training would refuse is named, and everything else is shown all the same.
    """
    from tailcloud.data.inspection import survey
    from tailcloud.data.inspection.duplicates import find_duplicates
    from tailcloud.recipe import load_recipe, parse_setting
    from tailcloud.reporting.inspection_page import inspection_place, write_inspection

    if html:
        inspection_place(html)
    asked: list[Mapping[str, Any]] = [*map(parse_setting, settings or []), {"data": spec, "root": root}]
    seen = survey(spec, root, load_recipe(None, asked).data.read_options)
    found = find_duplicates(seen.images)
    print_survey(seen)
    print_duplicates(seen, found)
    words = ["tailcloud", "train", "--data", spec, *(["--root", root] if root != "data" else [])]
    command = shlex.join([*words, *(word for setting in settings or [] for word in ("--set", setting))])
    planned = plan_of(seen, device, asked, command) if plan else None
    for sentence in seen.refusals:
        say_note(f"Training would not start: {sentence}.")
    if html:
        out.print(f"\npage: {write_inspection(html, seen, found, planned)}", markup=False)


def print_survey(seen: "Survey") -> None:
    """Counts, imbalance, groups, sizes, broken files and remarks."""
    import numpy as np

    from tailcloud.data.inspection.findings import PART_WORDS, size_facts, small_class_sentences
    from tailcloud.profile import Profile

    counts = seen.counts()
    profile = Profile(next(iter(counts.values())), seen.class_names)
    numbers = {PART_WORDS[part]: f"{int(np.sum(each)):,}" for part, each in counts.items()}
    shape = f", {'×'.join(map(str, seen.dataset.shape))}" if seen.dataset else ""
    out.print(seen.spec, style="bold", end="", markup=False)
    out.print(f"  fingerprint {seen.dataset.fingerprint}" if seen.dataset else "")
    out.print(
        f"{' and '.join(f'{number} {part}' for part, number in numbers.items())} images{shape}, "
        f"{profile.classes} {'class' if profile.classes == 1 else 'classes'}, "
        f"{profile.counts.max()} to {profile.counts.min()} images each "
        f"(realised imbalance ratio γ = {profile.ratio:g})"
    )
    groups = {name: len(members) for name, members in profile.groups.items()}
    out.print(
        f"many (> 100 images): {groups['many']}   medium (20–100): {groups['medium']}   few (< 20): {groups['few']}\n"
    )
    for line in bars(profile.counts.tolist(), list(profile.class_names)):
        out.print(line, markup=False)
    for what, value in size_facts(seen.headers):
        out.print(f"{what}: {value}", markup=False)
    print_broken(seen)
    for remark in [*profile.remarks(), *seen.remarks, *small_class_sentences(seen)]:
        say_note(remark)


def print_broken(seen: "Survey") -> None:
    """The files that cannot be read, and why."""
    if not seen.broken:
        return
    out.print(f"\n{counted(len(seen.broken), 'file')} cannot be read", markup=False)
    print_some([f"{name}: {why}" for name, why in list(seen.broken.items())[:LISTED]], len(seen.broken))


def print_duplicates(seen: "Survey", found: "Duplicates") -> None:
    """Images that are there twice, those in two parts first."""
    from tailcloud.data.inspection.findings import PART_WORDS, duplicate_sentences, listed_pairs

    if not seen.images:
        return
    same = f"{counted(len(found.same), 'image')} with the same pixels as another"
    out.print(f"\nduplicates: {same}, {counted(len(found.near), 'pair')} nearly the same", markup=False)
    lines, pairs = [], listed_pairs(seen, found)
    for pair in pairs[:LISTED]:
        places = [
            f"{seen.name(image)} ({PART_WORDS[seen.parts[image]]}, {seen.class_names[seen.labels[image]]})"
            for image in (pair.first, pair.second)
        ]
        lines.append(f" {'=' if pair.exact else '≈'} ".join(places))
    print_some(lines, len(pairs))
    for sentence in duplicate_sentences(seen, found):
        say_note(sentence)


def print_some(lines: Sequence[str], total: int) -> None:
    """The first lines, and how many more there are."""
    for line in lines:
        out.print(f"  {line}", markup=False)
    if total > len(lines):
        out.print(f"  and {total - len(lines):,} more: --html FILE lists them")


def plan_of(seen: "Survey", device: str, asked: Sequence[Mapping[str, Any]], command: str) -> "Plan | None":
    """Say what training would do, where it would start."""
    from tailcloud.auto_recipe.preview import preview_training
    from tailcloud.reporting.inspection_page import Plan
    from tailcloud.training.devices import pick_device

    if seen.dataset is None or seen.refusals:
        return None
    say_note("a few steps are timed, to say what training would do and how long it would take …")
    expected = preview_training(seen.dataset, pick_device(device), asked)
    out.print("\n[bold]What training would do[/]")
    for reason in expected.reasons:
        out.print(f"- {reason}", markup=False)
    out.print(command, markup=False)
    return Plan(command, expected.reasons, expected.recipe.to_toml())


def bars(counts: list[int], names: list[str]) -> list[str]:
    """A bar per class, most frequent first; with many classes, every k-th one."""
    order = sorted(range(len(counts)), key=lambda c: -counts[c])
    step = -(-len(order) // BARS)
    shown = order[::step]
    label = max(len(names[c]) for c in shown)
    lines = [f"{names[c]:>{label}}  {'█' * round(WIDTH * counts[c] / max(counts)) or '▏'} {counts[c]}" for c in shown]
    return lines if step == 1 else [*lines, f"(one class in {step} shown)"]
