"""The command line: one file per verb. Heavy imports stay inside the verbs, so that ``--help`` answers at once."""

import errno
import os
import sys
import warnings
from typing import Annotated

import typer

from tailcloud import __version__
from tailcloud.cli import data, recipes
from tailcloud.cli.console import say_error
from tailcloud.cli.evaluate import evaluate
from tailcloud.cli.inspect import inspect
from tailcloud.cli.report import report
from tailcloud.cli.train import train
from tailcloud.errors import TailcloudError, TailcloudWarning

warnings.filterwarnings("ignore", category=TailcloudWarning)  # verbs print remarks of their own

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, evaluate, inspect, report):
    app.command()(verb)
app.add_typer(recipes.app, name="recipes")
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailcloud {__version__}")
        raise typer.Exit


@app.callback()
def tailcloud(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Image classifiers that do not forget the tail.

    A first run, on data that is built in (about six seconds on two cores):

        tailcloud train

    The paper's benchmark, and what is in it:

        tailcloud data get cifar10

        tailcloud inspect cifar10-lt:100

        tailcloud train cifar10-lt/gcl --seed 0 --seed 1 --seed 2

    Every run is a folder with its recipe, log, model, result and an HTML report.
    """


def main() -> None:
    """Run the command line: a sentence instead of a traceback, exit code 2 for wrong use and 1 for failure."""
    try:
        app(prog_name="tailcloud")
    except TailcloudError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        _fail(_os_sentence(error), 1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "out of memory" not in str(error).lower():
            _unexpected(error)
        _fail("there is not enough memory for this run; lower stage1.batch with --set, or choose a smaller model", 1)
    except Exception as error:
        _unexpected(error)


def _fail(sentence: str, code: int) -> None:
    say_error(sentence)
    sys.exit(code)


def _os_sentence(error: OSError) -> str:
    place = error.filename or "a file"
    if error.errno == errno.ENOSPC:
        return f"the disk is full: {place} could not be written; free some space, then go on with --resume"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{place} may not be written or read here ({error.strerror}); choose another folder with --out or --root"
    return f"{place}: {error.strerror or error}"


def _unexpected(error: Exception) -> None:
    if os.environ.get("TAILCLOUD_DEBUG"):
        raise error
    _fail(
        f"this should not have happened ({type(error).__name__}: {error}); please report it, with what "
        "TAILCLOUD_DEBUG=1 in front of the same command prints",
        1,
    )
