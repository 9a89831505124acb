"""``tailcloud inspect``: what is in a data set, before anything is trained on it."""

from typing import Annotated

import typer

from tailcloud.cli.console import out, say_note

BARS = 40  # rows of the plot at most
WIDTH = 46


def inspect(
    spec: Annotated[str, typer.Argument(help="digits-lt, cifar10-lt:100, cifar100-lt:50, cifar10 …")] = "digits-lt",
    root: Annotated[str, typer.Option(help="The folder that data files are in.")] = "data",
) -> None:
    """Show the class counts of a data set: imbalance, groups, a plot, and what to watch out for.

    Example: tailcloud inspect cifar10-lt:100 --root data
    """
    from tailcloud.data import open_dataset

    dataset = open_dataset(spec, root)
    profile = dataset.profile
    height, width, channels = dataset.shape
    out.print(f"[bold]{dataset.spec}[/]  fingerprint {dataset.fingerprint}")
    out.print(
        f"{profile.total:,} training and {len(dataset.test):,} test images, {height}×{width}×{channels}, "
        f"{profile.classes} classes, {profile.counts.max()} to {profile.counts.min()} images each "
        f"(realised imbalance ratio γ = {profile.ratio:g})"
    )
    groups = {name: len(members) for name, members in profile.groups.items()}
    out.print(
        f"many (> 100 images): {groups['many']}   medium (20–100): {groups['medium']}   few (< 20): {groups['few']}\n"
    )
    for line in bars(profile.counts.tolist(), list(profile.class_names)):
        out.print(line, markup=False)
    for remark in [*profile.remarks(), *dataset.remarks]:
        say_note(remark)


def bars(counts: list[int], names: list[str]) -> list[str]:
    """A bar per class, most frequent first; with many classes, every k-th one."""
    order = sorted(range(len(counts)), key=lambda c: -counts[c])
    step = -(-len(order) // BARS)
    shown = order[::step]
    label = max(len(names[c]) for c in shown)
    lines = [f"{names[c]:>{label}}  {'█' * round(WIDTH * counts[c] / max(counts)) or '▏'} {counts[c]}" for c in shown]
    return lines if step == 1 else [*lines, f"(one class in {step} shown)"]
