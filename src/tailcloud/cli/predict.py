"""``tailcloud predict``: predict the classes of image files."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tailcloud.cli import prediction_output
from tailcloud.cli.console import errors, on_terminal, print_note
from tailcloud.cli.plugin_option import Plugin

if TYPE_CHECKING:
    from tailcloud.serving import TrainedClassifier
    from tailcloud.serving.predict import FilePrediction

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
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help='Below this probability, the prediction is "unsure".')
    ] = 0.0,
    prior: Annotated[
        str | None,
        typer.Option(metavar="uniform|train|FILE", help="Expected class frequencies; FILE has lines of class,share."),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write CSV; the default if standard output is not a terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, one object per line.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this new file: .csv or .jsonl.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    _plugin: Plugin = None,
) -> None:
    """Predict the classes of images, with calibrated probabilities. Needs only the run folder.

    Examples:

        tailcloud predict runs/birds photos/ --top 3 --threshold 0.6

        find / -name "*.jpg" | tailcloud predict runs/birds - --out birds.csv

    A file that cannot be read gets a row with the error; the others are predicted, and the exit status is 1.
    """
    from tailcloud.calibration.prior_file import read_prior
    from tailcloud.errors import TailcloudError, UsageError
    from tailcloud.serving import load
    from tailcloud.serving.image_paths import check_paths, find_images
    from tailcloud.serving.predict import predict_files
    from tailcloud.training.devices import pick_device

    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other; choose one")
    model = load(run)
    expected = read_prior(prior, model.class_names, model.counts)
    check_paths(paths)
    if model.fitted_on is None:
        print_note(NOT_CALIBRATED)
    top = min(top, len(model.class_names))
    failed = images = 0
    with _stream(out) as stream:
        write = _writer(_kind(out, as_csv=as_csv, as_json=as_json), stream, model, top, threshold)
        predictions = predict_files(
            model, find_images(paths, sys.stdin), device=pick_device(device), top=top, prior=expected
        )
        for prediction in _with_progress(predictions, paths, quiet=out is None and on_terminal()):
            write(prediction)
            images += 1
            failed += prediction.error is not None
    if out is not None:
        typer.echo(f"predictions: {out}")
    if failed:
        raise TailcloudError(f"{failed:,} of {images:,} files could not be read; their rows say why")


def _kind(out: Path | None, *, as_csv: bool, as_json: bool) -> str:
    if as_csv or as_json:
        return "json" if as_json else "csv"
    if out is not None:
        return "json" if out.suffix.lower() in JSON_SUFFIXES else "csv"
    return "table" if on_terminal() else "csv"


def _writer(
    kind: str, stream: IO[str], model: "TrainedClassifier", top: int, threshold: float
) -> prediction_output.Write:
    if kind == "csv":
        return prediction_output.as_csv(stream, top, threshold)
    if kind == "json":
        return prediction_output.as_json_lines(stream, threshold)
    return prediction_output.as_table(stream, model.class_names, threshold)


@contextmanager
def _stream(out: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a new file that appears when it is complete."""
    from tailcloud.files import new_text_file

    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # file names may have bytes that are not text
        yield sys.stdout
    else:
        with new_text_file(out) as file:
            yield file


def _with_progress(
    predictions: "Iterator[FilePrediction]", paths: list[str], *, quiet: bool
) -> "Iterator[FilePrediction]":
    """The predictions, with a progress bar if standard error is a terminal."""
    if quiet or not errors.is_terminal:
        yield from predictions
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tailcloud.serving.image_paths import STDIN, find_images

    total = None if STDIN in paths else sum(1 for _ in find_images(paths, sys.stdin))
    columns = TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=errors, transient=True) as progress:
        yield from progress.track(predictions, total=total)
