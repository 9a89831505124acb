"""``tailcloud predict``: predict the classes of image files, list them, sort them into folders, show them on a page."""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tailcloud.cli import prediction_output
from tailcloud.cli.console import errors, on_terminal, print_note
from tailcloud.cli.options import Device, Plugin
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import counted, some_of

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from tailcloud.serving import TrainedClassifier
    from tailcloud.serving.predict import FilePrediction
    from tailcloud.serving.sort_into import SortedFolder

NOT_CALIBRATED = (
    "The probabilities are not calibrated: no images were held out when this model was trained. "
    "Train with --set selection.split=0.1 to calibrate."
)
JSON_SUFFIXES = {".json", ".jsonl", ".ndjson"}


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Image files, folders or patterns; - reads a list from standard input."),
    ],
    top: Annotated[int, typer.Option(min=1, help="Number of classes per image.")] = 1,
    threshold_text: Annotated[
        str,
        typer.Option("--threshold", metavar="0…1", help='Below this probability, the prediction is "unsure".'),
    ] = "0",
    prior: Annotated[
        str | None,
        typer.Option(metavar="uniform|train|FILE", help="Expected class frequencies; FILE has lines of class,share."),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write CSV; the default if standard output is not a terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, one object per line.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this new file: .csv or .jsonl.")] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Copy the images into this new folder: a folder per class, and one of unsure images."
        ),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link/--copy", help="With --sort-into: symbolic links to the images, or copies.")
    ] = False,
    gallery: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML page with images of every predicted class.")
    ] = None,
    device: Device = "auto",
    _plugin: Plugin = None,
) -> None:
    """Predict the classes of images, with calibrated probabilities. Needs only the run folder.

    Examples:

        tailcloud predict runs/birds photos/ --top 3 --threshold 0.6

        find / -name "*.jpg" | tailcloud predict runs/birds - --out birds.csv

        tailcloud predict runs/birds photos/ --threshold 0.8 --sort-into sorted --gallery gallery.html

    A file that cannot be read gets a row with the error; the others are predicted, and the exit status is 1. With
    --sort-into or --gallery, rows are written only if --csv, --json or --out asks for them.
    """
    from tailcloud.calibration.prior_file import read_prior
    from tailcloud.data.readers.image_folder import other_files_remark
    from tailcloud.files import check_output
    from tailcloud.serving import load
    from tailcloud.serving.image_paths import check_paths, count_other_files, find_images
    from tailcloud.serving.predict import predict_files
    from tailcloud.serving.sort_into import SortedFolder
    from tailcloud.training.devices import pick_device

    threshold = read_threshold(threshold_text)
    if out is not None:
        check_output("--out", out, folder=False)
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other; choose one")
    if link and not sort_into:
        raise UsageError("--link needs --sort-into FOLDER")
    if gallery:
        from tailcloud.reporting.gallery_page import Gallery, gallery_path

        gallery = gallery_path(gallery)
    model = load(run)
    expected = read_prior(prior, model.class_names, model.frequencies)
    check_paths(paths)
    for remark in other_files_remark(count_other_files(paths)):
        print_note(remark)
    if model.fitted_on is None:
        print_note(NOT_CALIBRATED)
    folder = SortedFolder(sort_into, model.class_names, threshold=threshold, link=link) if sort_into else None
    summary = prediction_output.PredictionCounts(threshold)
    shown = Gallery(model.class_names, threshold=threshold) if gallery else None
    kind = _kind(out, as_csv=as_csv, as_json=as_json, elsewhere=bool(sort_into or gallery))
    outputs = Outputs(out, sort_into, gallery, kind)

    def images() -> Iterator[Path]:
        return find_images(paths, _standard_input(paths), outside=sort_into)

    with ExitStack() as stack:
        writes: list[prediction_output.Write] = [summary.add]
        if kind:
            stream = stack.enter_context(_stream(outputs))
            writes.append(_writer(kind, stream, model, min(top, len(model.class_names)), threshold))
        if shown:
            writes.append(shown.add)
        predictions = predict_files(
            model, images(), device=pick_device(device), top=max(top, shown.top if shown else 1), prior=expected
        )
        if folder:
            predictions = stack.enter_context(folder).sort(predictions)
            _note_folders(folder)
        for prediction in _with_progress(predictions, None if "-" in paths else images, quiet=outputs.on_screen):
            for write in writes:
                write(prediction)
    if shown and gallery:
        shown.write(gallery, run)
    _print_outcome(summary, outputs)


def read_threshold(text: str) -> float:
    """The probability that ``--threshold`` names; anything else is refused."""
    value = nan
    with suppress(ValueError):
        value = float(text.removesuffix("%"))
    if 0 <= value <= 1 and not text.endswith("%"):
        return value
    way_out = f"; write {value / 100:g} for {value:g} %" if 0 <= value <= 100 else ""
    raise UsageError(f"--threshold {text} is not a probability, which is from 0 to 1{way_out}")


@dataclass(frozen=True)
class Outputs:
    """Where predictions go: rows of a kind (None for no rows) to a file or standard output, a folder, a page."""

    out: Path | None
    sort_into: Path | None
    page: Path | None
    kind: str | None

    @property
    def on_screen(self) -> bool:
        """Whether rows are printed on a terminal, where a progress bar would disturb them."""
        return self.kind is not None and self.out is None and on_terminal()

    @property
    def only_rows(self) -> bool:
        """Whether rows are all that the command makes."""
        return self.sort_into is None and self.page is None

    @property
    def reasons(self) -> str:
        """Where a user finds why a file could not be read."""
        from tailcloud.serving.sort_into import LIST

        if self.kind is not None:
            return "their rows say why"
        return f"{self.sort_into / LIST} says why" if self.sort_into else f"{self.page} says why"


def _print_outcome(summary: prediction_output.PredictionCounts, outputs: Outputs) -> None:
    """Print counts and outputs, on standard error if standard output has the rows. Raise if a file was unreadable."""
    to_errors = outputs.kind is not None and outputs.out is None
    for line in [] if outputs.only_rows else summary.lines():
        typer.echo(line, err=to_errors)
    for what, path in (("predictions", outputs.out), ("sorted into", outputs.sort_into), ("gallery", outputs.page)):
        if path is not None:
            typer.echo(f"{what}: {path}", err=to_errors)
    if summary.odd_names:
        names = counted(summary.odd_names, "file name is", "file names are")
        print_note(f"{names} not valid UTF-8; invalid bytes are written as \ufffd.")
    if outputs.sort_into and not summary.threshold:
        print_note("No image was set aside as unsure; pass --threshold 0.8 for those below 80 %.")
    if summary.failed:
        raise TailcloudError(f"{summary.failed:,} of {summary.images:,} files could not be read; {outputs.reasons}")


def _kind(out: Path | None, *, as_csv: bool, as_json: bool, elsewhere: bool) -> str | None:
    """The kind of rows; None if predictions go elsewhere and nothing asks for rows."""
    if as_csv or as_json:
        return "json" if as_json else "csv"
    if out is not None:
        return "json" if out.suffix.lower() in JSON_SUFFIXES else "csv"
    if elsewhere:
        return None
    return "table" if on_terminal() else "csv"


def _writer(
    kind: str, stream: "SupportsWrite[str]", model: "TrainedClassifier", top: int, threshold: float
) -> prediction_output.Write:
    if kind == "csv":
        return prediction_output.as_csv(stream, top, threshold)
    if kind == "json":
        return prediction_output.as_json_lines(stream, top, threshold)
    return prediction_output.as_table(stream, model.class_names, top, threshold)


class Unread:
    """Standard output whose reader may leave, as ``head`` does: the rest goes nowhere, and images are still sorted."""

    def write(self, text: str) -> None:
        """Write text at once."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _standard_input(paths: Sequence[str]) -> TextIO:
    """Standard input, with names decoded as those in folders are: bytes that are not UTF-8 stay distinct."""
    if sys.stdin is None:
        if "-" in paths:
            raise UsageError('"-" reads a list from standard input, which is closed; name files or folders')
        return io.StringIO()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding=sys.getfilesystemencoding(), errors=sys.getfilesystemencodeerrors())
    return sys.stdin


@contextmanager
def _stream(outputs: Outputs) -> Iterator["SupportsWrite[str]"]:
    """Standard output, or a new file that appears when it is complete."""
    from tailcloud.files import new_text_file

    if (out := outputs.out) is None and sys.stdout is None:
        raise UsageError("standard output is closed; write to a file with --out FILE")
    try:
        if out is None:
            yield sys.stdout if outputs.only_rows else Unread()
            sys.stdout.flush()
        else:
            with new_text_file(out) as file:
                yield file
    except OSError as error:
        if out is None and error.errno == errno.ENOSPC:
            error.filename = "standard output"
        raise


def _note_folders(folder: "SortedFolder") -> None:
    """Name the classes whose folder has another name."""
    renamed = [f'"{name}" → {place}' for name, place in folder.folders.items() if name != place]
    if renamed:
        classes = counted(len(renamed), "class has a folder", "classes have folders")
        print_note(f"{classes} of another name: {some_of(renamed, 5)}.")


def _with_progress(
    predictions: "Iterator[FilePrediction]", images: Callable[[], Iterator[Path]] | None, *, quiet: bool
) -> "Iterator[FilePrediction]":
    """The predictions, with a progress bar if standard error is a terminal; ``images`` lists the files again."""
    if quiet or not errors.is_terminal:
        yield from predictions
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    total = None if images is None else sum(1 for _ in images())
    columns = TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=errors, transient=True) as progress:
        yield from progress.track(predictions, total=total)
