"""``tailcloud review``: look at labels that are probably wrong, and at duplicates."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcloud.cli.console import out as console
from tailcloud.cli.console import print_columns, print_note
from tailcloud.cli.options import Device, Plugin
from tailcloud.formatting import counted, percent, shortened

if TYPE_CHECKING:
    from tailcloud.review.decisions import Decisions
    from tailcloud.review.review import Review
    from tailcloud.review.review_images import ReviewImages
    from tailcloud.review.review_items import ReviewItem

LISTED = 20  # items that --csv also prints
LONGEST_NAME = 40  # characters of a name in that table
COLUMNS = ("kind", "path", "split", "label", "suggested", "probability", "label_probability", "other")


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run on your own images.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The list of images to write.  [default: RUN/review.csv]", show_default=False),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write what is suspicious to this new file, without a page.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Where the images are now, if they were moved.")] = None,
    root: Annotated[str | None, typer.Option(help="The folder with the images of a list, if it was moved.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the default browser.")] = False,
    device: Device = "auto",
    _plugin: Plugin = None,
) -> None:
    """Review labels that are probably wrong, and duplicates, on a page in the browser of this machine.

    Examples:

        tailcloud review runs/birds

        tailcloud review runs/birds --csv suspects.csv

    Every image is predicted by a head that was not trained on it. Where it contradicts the label, you keep the label,
    choose another, or drop the image; rare classes come first. Every decision is saved at once, and a later review goes
    on there. The images stay as they are: the result is a list for tailcloud train --data.
    """
    from tailcloud.errors import UsageError
    from tailcloud.files import check_output
    from tailcloud.review.decisions import Decisions, check_list
    from tailcloud.review.review import check_outside, review_run
    from tailcloud.training.devices import pick_device

    place = out or run / "review.csv"
    if csv is not None:
        check_output("--csv", csv, folder=False)
        if csv.exists():
            raise UsageError(f"--csv {csv} exists already and is not overwritten; choose another name")
    else:
        check_list(place)
        check_outside(place, run, data)
    found = review_run(run, pick_device(device), print_note, data=data, root=root)
    print_count(found)
    if csv is not None:
        write_items(found, csv)
        return
    decisions = Decisions.load(found.images, place)
    if not found.items:
        print_note("Nothing suspicious was found, so there is nothing to review.")
        return
    serve(found, decisions, port=port, browser=browser)
    print_outcome(decisions)


def print_count(found: "Review") -> None:
    """Print how many labels are doubtful, and how many pairs there are."""
    suspects = sum(item.other is None for item in found.items)
    order = "; most of these are right, so look at the first ones: rare classes, and in them the least likely labels"
    console.print(
        f"{suspects:,} of {counted(len(found.images), 'label')} {'is' if suspects == 1 else 'are'} doubtful"
        f"{order if suspects > 1 else ''}",
        markup=False,
    )
    pairs = len(found.items) - suspects
    console.print(
        f"{counted(pairs, 'pair')} of (nearly) the same images {'has' if pairs == 1 else 'have'} different labels, or "
        "images in different splits",
        markup=False,
    )


def serve(found: "Review", decisions: "Decisions", *, port: int, browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from tailcloud.review.server import ReviewServer

    with ReviewServer(
        found.images, found.items, found.samples, decisions, command=train_command(decisions), port=port
    ) as server:
        console.print(f"\nreview: {server.url}", markup=False)
        console.print("Open this address in a browser on this machine. Ctrl-C ends the review; nothing is lost.")
        if browser:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.print()


def train_command(decisions: "Decisions") -> str:
    """The command that trains on the reviewed list."""
    from tailcloud.review.decisions import GROUP_COLUMN

    grouped = [] if decisions.images.groups is None else ["--set", f"data.group={GROUP_COLUMN}"]
    return shlex.join(["tailcloud", "train", "--data", str(decisions.out.absolute()), *grouped])


def print_outcome(decisions: "Decisions") -> None:
    """Print what was decided, and what to type next."""
    made: list[str] = [decision.action for decision in decisions.made.values()]
    if not made:
        console.print("Nothing was decided, and nothing was written.")
        return
    decisions.write_list()
    words = {"keep": "kept", "relabel": "relabelled", "drop": "dropped"}
    figures = ", ".join(f"{made.count(action):,} {word}" for action, word in words.items())
    console.print(f"{figures}\nlist: {decisions.out}\n\n{train_command(decisions)}", markup=False)
    for remark in decisions.remarks():
        print_note(remark)


def write_items(found: "Review", file: Path) -> None:
    """Write all items as CSV, and print the first."""
    from csv import writer

    from tailcloud.files import new_text_file

    with new_text_file(file) as text:
        writer(text, lineterminator="\n").writerows([COLUMNS, *item_rows(found)])
    if found.items:
        shown = [shown_row(found.images, item) for item in found.items[:LISTED]]
        print_columns([("image", "split", "label", "suggested", "why"), *shown])
    if len(found.items) > LISTED:
        console.print(f"and {len(found.items) - LISTED:,} more")
    console.print(f"suspects: {file}", markup=False)


def shown_row(images: "ReviewImages", item: "ReviewItem") -> tuple[str, ...]:
    """The cells of an item in the table of the terminal. The class of two images with one label is no suggestion."""
    names, label = images.class_names, images.labels[item.image]
    suggested = "" if item.suggested == label else names[item.suggested]
    name, split = shortened(images.paths[item.image].name, LONGEST_NAME), images.splits[item.image]
    return name, split, names[label], suggested, reason(images, item)


def reason(images: "ReviewImages", item: "ReviewItem") -> str:
    """Why an item is one, in a few words."""
    label, suggested = (images.class_names[each] for each in (images.labels[item.image], item.suggested))
    if item.other is None:
        likely = percent(100 * item.probability), percent(100 * item.label_probability)
        return f"{suggested} {likely[0]}, {label} {likely[1]}"
    alike = "the same as" if item.exact else "nearly the same as"
    differ = "two labels" if label != suggested else f"two splits ({images.splits[item.other]})"
    return f"{differ}: {alike} {shortened(images.paths[item.other].name, LONGEST_NAME)}"


def item_rows(found: "Review") -> list[tuple[str, ...]]:
    """The cells of each item, as in ``COLUMNS``."""
    images, names = found.images, found.images.class_names
    return [
        (
            "label" if item.other is None else "same" if item.exact else "near",
            str(images.paths[item.image]),
            images.splits[item.image],
            names[images.labels[item.image]],
            names[item.suggested],
            f"{item.probability:.4f}",
            f"{item.label_probability:.4f}",
            "" if item.other is None else str(images.paths[item.other]),
        )
        for item in found.items
    ]
