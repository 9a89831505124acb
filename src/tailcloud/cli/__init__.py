"""The command line: one file per verb. Heavy imports stay inside the verbs, so that ``--help`` is fast.

Verbs: ``train``, ``watch``, ``evaluate``, ``predict``, ``inspect``, ``report``, ``review``, ``rebalance``, ``average``,
``bench``, ``export``, ``doctor``, ``recipes``, ``data``, ``weights``. Shared: ``console`` (notes and errors),
``options``, and for verbs that train, ``progress`` and ``train_output``. For one verb: ``run_status`` and
``live_table`` (watch), ``bench_display`` (bench), ``prediction_output`` (predict), ``verify`` (data).
"""

import os
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from tailcloud import __version__
from tailcloud.cli import data, recipes, weights
from tailcloud.cli.average import average
from tailcloud.cli.bench import bench
from tailcloud.cli.console import print_error, print_log_as_notes
from tailcloud.cli.doctor import doctor
from tailcloud.cli.evaluate import evaluate
from tailcloud.cli.export import export
from tailcloud.cli.inspect import inspect
from tailcloud.cli.options import Plugin
from tailcloud.cli.predict import predict
from tailcloud.cli.rebalance import rebalance
from tailcloud.cli.report import report
from tailcloud.cli.review import review
from tailcloud.cli.standard_streams import prepare_standard_streams
from tailcloud.cli.termination import clean_exit_on_signals
from tailcloud.cli.train import train
from tailcloud.cli.watch import watch
from tailcloud.errors import SilentExit, TailcloudWarning, UsageError, explained, unexpected
from tailcloud.garbage_collection import exit_quickly

# Threads that wait for each other spin for a moment, then sleep. On a busy machine a step is several times faster than
# if they spun for long; on a quiet one, a tenth faster than if they slept at once, and a quarter with small batches.
if "OMP_WAIT_POLICY" not in os.environ:  # all are read when PyTorch is imported
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# Runs on one GPU have a stream each, which by default share eight hardware queues and wait for each other there.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # read when CUDA starts
warnings.filterwarnings("ignore", category=TailcloudWarning)  # verbs print their own notes
warnings.filterwarnings("ignore", message="Image size", module="PIL")  # verbs report such images themselves
print_log_as_notes()

ERROR_GRACE_SECONDS = 2.0  # gives rank 0 time to print the error: torchrun ends all processes with the first one

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, watch, evaluate, predict, inspect, report, review, rebalance, average, bench, export, doctor):
    app.command()(verb)
app.add_typer(recipes.app, name="recipes")
app.add_typer(data.app, name="data")
app.add_typer(weights.app, name="weights")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailcloud {__version__}")
        raise typer.Exit


@app.callback()
def tailcloud(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    _plugin: Plugin = None,
) -> None:
    """Image classifiers that do not forget the tail.

    Your own images, a folder for each class: look at them, then train:

        tailcloud inspect PHOTOS

        tailcloud train --data PHOTOS --time-budget 10m

        tailcloud predict runs/RUN NEW_PHOTOS

    A first run on built-in data is "tailcloud train". The paper's benchmark: download, inspect, train:

        tailcloud data get cifar10

        tailcloud inspect cifar10-lt:100

        tailcloud train cifar10-lt/gcl --seed 0-2

    Every run is a folder with its recipe, log, model, result and an HTML report.
    """


def main() -> None:
    """Run the command line. An error is one sentence; the exit status is 2 for wrong use and 1 for failure."""
    exit_quickly()
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # children import nothing from the working folder
    if "WORLD_SIZE" in os.environ:  # otherwise every process prints PyTorch's warnings
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    prepare_standard_streams()
    with clean_exit_on_signals():
        _run()


def _check_words(words: Sequence[str]) -> None:
    """Refuse an empty word: as a path it would stand for the working folder. A shell variable was not set."""
    for before, word in pairwise(["tailcloud", *words]):
        option, equals, value = word.partition("=")
        if not word or (equals and not value and option.startswith("--")):
            where = option or before
            what = f'there is nothing after "{where}"' if word else f'the argument after "{before}" is empty'
            raise UsageError(f"{what}; give a value, or check the variable that should have one")


def _run() -> None:
    try:
        _check_words(sys.argv[1:])
        app(prog_name="tailcloud")
    except Exception as error:
        sentence = explained(error) or unexpected(error)
        if isinstance(sentence, SilentExit):
            time.sleep(ERROR_GRACE_SECONDS)
            sys.exit(sentence.exit_code)
        print_error(str(sentence))
        sys.exit(sentence.exit_code)
