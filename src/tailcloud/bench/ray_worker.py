"""What a machine of a cluster does with a run: the same as here, with the same paths, and word of it sent home."""

import os
import platform
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tailcloud
from tailcloud import plugins
from tailcloud.bench.folder_transfer import Parcel, parcel_of
from tailcloud.errors import TailcloudError, explained
from tailcloud.launch.fleet import Job, Message, Outcome, Reporter
from tailcloud.runs.folder import RunFolder

RELEASE = 20.0  # seconds after which the last process of a killed worker has let go of its folder


@dataclass(frozen=True)
class Order:
    """What every worker is told."""

    token: Path  # a file in the folder of the runs: who sees it shares the file system
    home: Path  # the folder that the command was given in, which relative names start from
    cores: int
    plugins: tuple[str, ...] = ()
    version: str = tailcloud.__version__


class Mailbox:
    """An actor: what the workers have to say waits here until it is asked for."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def tell(self, message: Message) -> None:
        """Something happened."""
        self.messages.append(message)

    def take(self) -> list[Message]:
        """Everything that happened since the last time."""
        taken, self.messages = self.messages, []
        return taken


class Post:
    """The way to a mailbox, from another machine: nobody waits for an answer."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox = mailbox

    def put(self, message: Message) -> None:
        """Send it."""
        self.mailbox.tell.remote(message)


def work(
    number: int, job: Job, folder: RunFolder, order: Order, mailbox: Any, *needed: Parcel | None
) -> tuple[Outcome, Parcel | None]:
    """Train one run; its outcome, and its files where this machine does not share the folder that they belong to.

    ``needed`` are folders that were trained elsewhere: the run itself as far as it came, and the one whose first stage
    it takes. A run that this machine has begun already goes on from its own checkpoint.
    """
    shared = order.token.is_file()
    try:
        prepare(order)
        for parcel in needed if not shared else ():
            if parcel and not (parcel.folder == folder.path and folder.exists):
                parcel.unpack()
        wait_until_free(folder)
        outcome: Outcome = job(Reporter(number, Post(mailbox)))
    except Exception as error:
        outcome = at_this_machine(error)
    return outcome, None if shared else parcel_of(folder)


def prepare(order: Order) -> None:
    """The same names, cores and plugins as where the command was given."""
    if tailcloud.__version__ != order.version:
        raise TailcloudError(
            f"tailcloud {tailcloud.__version__} is installed, and the command came from {order.version}; "
            "install the same version on every machine"
        )
    if order.home.is_dir():
        os.chdir(order.home)
    torch.set_num_threads(order.cores)  # the run before may have asked for fewer
    plugins.load_entry_points()
    for file in order.plugins:
        plugins.load_plugin(file)


def wait_until_free(folder: RunFolder) -> None:
    """The lock of a killed run is released with the last of its processes, which may outlive it by seconds."""
    patience = time.monotonic() + RELEASE
    while folder.is_locked and time.monotonic() < patience:
        time.sleep(0.2)


def at_this_machine(error: Exception) -> TailcloudError:
    """What ended a run, and on which machine. What nobody foresaw is also told in the worker's log."""
    sentence = explained(error)
    if sentence is None:
        traceback.print_exc(file=sys.stderr)
        sentence = TailcloudError(f"this should not have happened ({type(error).__name__}: {error}); please report it")
    return type(sentence)(f"{sentence} [on the machine {platform.node()}]")
