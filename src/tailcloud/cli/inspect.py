"""``tailcloud inspect``: what is in a data set, before anything is trained on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import out, print_note
from tailcloud.cli.options import Device
from tailcloud.formatting import counted

if TYPE_CHECKING:
    from tailcloud.data.inspection.duplicates import Duplicates
    from tailcloud.data.inspection.survey import Survey
    from tailcloud.reporting.inspection_page import InspectionPlan

MAX_BARS = 40  # rows of the plot
BAR_WIDTH = 46  # characters
MAX_LISTED = 10  # pairs, and broken files


def inspect(
    spec: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A folder, list or .npz file of images; or a name such as cifar10-lt:100."),
    ] = "digits-lt",
    root: Annotated[
        str | None,
        typer.Option(help="The folder with the data files, or with the images of a list.", show_default="data"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe, for example data.size=96."),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write everything to an HTML page.")] = None,
    plan: Annotated[
        bool,
        typer.Option(help="Print what training would do and how long it would take (times a few steps)."),
    ] = True,
    device: Device = "auto",
) -> None:
    """Show what is in a data set and what is wrong with it: counts, imbalance, sizes, broken files, duplicates.

    Examples:

        tailcloud inspect photos --html photos.html

        tailcloud inspect cifar10-lt:100 --root data

    Problems that would stop training are listed as notes.
    """
    from tailcloud.data.inspection import survey
    from tailcloud.data.inspection.duplicates import find_duplicates
    from tailcloud.data.inspection.group_suggestions import group_suggestions
    from tailcloud.data.readers.open_path import named_root
    from tailcloud.launch.command_line import command_line
    from tailcloud.recipe import load_recipe, parse_setting
    from tailcloud.reporting.inspection_page import inspection_path, write_inspection

    if html:
        inspection_path(html)
    place = named_root(root)
    layers: list[Mapping[str, Any]] = [*map(parse_setting, settings or []), {"data": spec, "root": place}]
    surveyed = survey(spec, place, load_recipe(None, layers).data.read_options)
    found = find_duplicates(surveyed.images)
    print_survey(surveyed)
    print_duplicates(surveyed, found)
    suggestions = list(group_suggestions(surveyed))
    for sentence in suggestions:
        print_note(sentence)
    command = command_line("train", [], {"--data": spec, "--root": root or None, "--set": settings})
    planned = print_plan(surveyed, device, layers, command) if plan else None
    for sentence in surveyed.refusals:
        print_note(f"Training would not start: {sentence}.")
    if html:
        out.print(f"\npage: {write_inspection(html, surveyed, found, planned, suggestions)}", markup=False)


def print_survey(surveyed: "Survey") -> None:
    """Print counts, imbalance, shot groups, sizes, broken files and remarks."""
    import numpy as np

    from tailcloud.data.inspection.findings import SPLIT_TITLES, size_facts, small_class_sentences
    from tailcloud.profile import Profile

    counts = surveyed.counts()
    profile = Profile(next(iter(counts.values())), surveyed.class_names)
    numbers = {SPLIT_TITLES[split]: f"{int(np.sum(each)):,}" for split, each in counts.items()}
    shape = f", {'×'.join(map(str, surveyed.shape))}" if surveyed.shape else ""
    out.print(surveyed.spec, style="bold", end="", markup=False)
    out.print(f"  fingerprint {surveyed.dataset.fingerprint}" if surveyed.dataset else "")
    out.print(
        f"{' and '.join(f'{number} {split}' for split, number in numbers.items())} images{shape}, "
        f"{profile.classes} {'class' if profile.classes == 1 else 'classes'}, "
        f"{profile.counts.max()} to {profile.counts.min()} images each "
        f"(imbalance ratio γ = {round(profile.ratio, 1):g})"
    )
    groups = {name: len(members) for name, members in profile.groups.items()}
    out.print(
        f"many (> 100 images): {groups['many']}   medium (20–100): {groups['medium']}   few (< 20): {groups['few']}\n"
    )
    for line in bars(profile.counts.tolist(), list(profile.class_names)):
        out.print(line, markup=False)
    for what, value in size_facts(surveyed.headers):
        out.print(f"{what}: {value}", markup=False)
    print_broken(surveyed)
    for remark in [*profile.remarks(), *surveyed.remarks, *small_class_sentences(surveyed)]:
        print_note(remark)


def print_broken(surveyed: "Survey") -> None:
    """Print the files that cannot be read, and why."""
    if not surveyed.broken:
        return
    out.print(f"\n{counted(len(surveyed.broken), 'file')} cannot be read", markup=False)
    print_some([f"{name}: {why}" for name, why in list(surveyed.broken.items())[:MAX_LISTED]], len(surveyed.broken))


def print_duplicates(surveyed: "Survey", found: "Duplicates") -> None:
    """Print duplicate images, those in two splits first."""
    from tailcloud.data.inspection.findings import SPLIT_TITLES, duplicate_sentences, listed_pairs

    if not surveyed.images:
        return
    same = f"{counted(len(found.same), 'image')} with the same pixels as another"
    pairs = f"{same}, {counted(len(found.near), 'pair')} nearly the same"
    out.print(f"\nduplicates: {pairs if len(found.same) or len(found.near) else 'none found'}", markup=False)
    lines, listed = [], listed_pairs(surveyed, found)
    for pair in listed[:MAX_LISTED]:
        places = [
            f"{surveyed.name(row)} ({SPLIT_TITLES[surveyed.splits[row]]}, {surveyed.class_names[surveyed.labels[row]]})"
            for row in (pair.first, pair.second)
        ]
        lines.append(f" {'=' if pair.exact else '≈'} ".join(places))
    print_some(lines, len(listed))
    for sentence in duplicate_sentences(surveyed, found):
        print_note(sentence)


def print_some(lines: Sequence[str], total: int) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines:
        out.print(f"  {line}", markup=False)
    if total > len(lines):
        out.print(f"  and {total - len(lines):,} more; --html FILE lists them")


def print_plan(
    surveyed: "Survey", device: str, layers: Sequence[Mapping[str, Any]], command: str
) -> "InspectionPlan | None":
    """Print what training would do; None if it would not start."""
    from tailcloud.auto_recipe.preview import preview_training
    from tailcloud.reporting.inspection_page import InspectionPlan
    from tailcloud.training.devices import pick_device

    if surveyed.dataset is None or surveyed.refusals:
        return None
    print_note("Timing a few steps to estimate how long training would take …")
    expected = preview_training(surveyed.dataset, pick_device(device), layers)
    out.print("\n[bold]What training would do[/]")
    out.print(expected.sentence, markup=False)
    for reason in expected.reasons:
        out.print(f"- {reason}", markup=False)
    out.print(command, markup=False)
    return InspectionPlan(expected.sentence, command, expected.reasons, expected.recipe.to_toml())


def bars(counts: list[int], names: list[str]) -> list[str]:
    """A bar for each class, the most frequent first; with many classes, for every k-th one."""
    order = sorted(range(len(counts)), key=lambda c: -counts[c])
    step = -(-len(order) // MAX_BARS)
    shown = order[::step]
    label = max(len(names[c]) for c in shown)
    lines = [
        f"{names[c]:>{label}}  {'█' * round(BAR_WIDTH * counts[c] / max(counts)) or '▏'} {counts[c]}" for c in shown
    ]
    return lines if step == 1 else [*lines, f"(one in {step} classes shown)"]
