"""A Ray worker: trains one run with the paths of the command, and sends its progress and files back."""

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
from tailcloud.bench.folder_transfer import FolderCopy, folder_copy
from tailcloud.errors import TailcloudError, explained, unexpected
from tailcloud.launch.fleet import Job, Message, Outcome, QueueObserver
from tailcloud.runs.folder import RunFolder

LOCK_RELEASE_SECONDS = 20.0  # within this time, the last process of a killed worker releases the lock of its folder


@dataclass(frozen=True)
class WorkerSetup:
    """What every worker needs to know."""

    token: Path  # a file in the folder of the runs: a machine that sees it shares the file system
    home: Path  # working directory of the command: relative paths start here
    cores: int
    plugins: tuple[str, ...] = ()
    version: str = tailcloud.__version__


class Mailbox:
    """A Ray actor that holds the messages of the workers until the command takes them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def add(self, message: Message) -> None:
        """Add a message."""
        self.messages.append(message)

    def take(self) -> list[Message]:
        """All messages since the last call."""
        taken, self.messages = self.messages, []
        return taken


class MailboxSender:
    """Sends messages to a mailbox on another machine, without waiting for an answer."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox = mailbox

    def put(self, message: Message) -> None:
        """Send it."""
        self.mailbox.add.remote(message)


def work(
    number: int, job: Job, folder: RunFolder, setup: WorkerSetup, mailbox: Any, *copies: FolderCopy | None
) -> tuple[Outcome, FolderCopy | None]:
    """Train one run; its outcome, and a copy of its folder if this machine does not share the file system.

    ``copies`` are folders from other machines: the run itself as far as it was trained, and the runs that it needs:
    the one that it takes its first stage from, or its teachers. A run that was started on this machine continues from
    its own checkpoint.
    """
    shared = setup.token.is_file()
    try:
        prepare(setup)
        for copy in copies if not shared else ():
            if copy and not (copy.folder == folder.path and folder.exists):
                copy.unpack()
        wait_until_free(folder)
        outcome: Outcome = job(QueueObserver(number, MailboxSender(mailbox)))
    except Exception as error:
        outcome = with_machine_name(error)
    return outcome, None if shared else folder_copy(folder)


def prepare(setup: WorkerSetup) -> None:
    """Use the working directory, cores and plugins of the command."""
    if tailcloud.__version__ != setup.version:
        raise TailcloudError(
            f"tailcloud {tailcloud.__version__} is installed, and the command uses {setup.version}; "
            "install the same version on every machine"
        )
    if setup.home.is_dir():
        os.chdir(setup.home)
    torch.set_num_threads(setup.cores)  # the run before may have set fewer
    plugins.load_entry_points()
    for file in setup.plugins:
        plugins.load_plugin(file)


def wait_until_free(folder: RunFolder) -> None:
    """Wait for the lock of a killed run, which its last process may hold for some seconds."""
    deadline = time.monotonic() + LOCK_RELEASE_SECONDS
    while folder.is_locked and time.monotonic() < deadline:
        time.sleep(0.2)


def with_machine_name(error: Exception) -> TailcloudError:
    """The error that ended a run, with the name of the machine. An unexpected one is also in the worker's log."""
    sentence = explained(error)
    if sentence is None:
        traceback.print_exc(file=sys.stderr)
        sentence = unexpected(error)
    return type(sentence)(f"{sentence} [on the machine {platform.node()}]")
