"""Disks that fill up, turn read-only or are slow, for benchmarks/kills.py. They need root, and a mount namespace."""

import ctypes
import os
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import kill_hooks

NEW_MOUNTS, ADOPT_ORPHANS = 0x00020000, 36  # CLONE_NEWNS, PR_SET_CHILD_SUBREAPER
SMALL, IMAGE = "16m", 24 << 20  # bytes of the disks
LEFT = 96_000  # bytes that a full disk has left, at most
SLOW_SECONDS = 0.04


def adopt_orphans() -> None:
    """Processes whose parent is killed become children of this one, so that nobody is left behind unseen."""
    ctypes.CDLL(None, use_errno=True).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def own_mounts() -> bool:
    """Mounts of this process are its own from now on, and so is /dev/shm; False without the right to."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS):
        return False
    done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False)
    if done.returncode:
        return False
    return not subprocess.run(["mount", "-t", "tmpfs", "shm", "/dev/shm"], capture_output=True, check=False).returncode


class Disk:
    """An ordinary disk: the folder ``place``. ``harm`` makes it fail, ``heal`` repairs it."""

    environment: dict[str, str] = {}  # noqa: RUF012
    fails = False

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)

    def harm(self, chance: random.Random) -> None:
        """Make it fail."""

    def heal(self) -> None:
        """Repair it."""

    def remove(self) -> None:
        """Nothing is mounted any more."""


class SlowDisk(Disk):
    """Flushing and renaming take longer, in every process (``kill_hooks``)."""

    environment = {kill_hooks.SLOW: str(SLOW_SECONDS)}  # noqa: RUF012


class FullDisk(Disk):
    """A small tmpfs; harmed, a file takes all space but some bytes."""

    fails = True

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        run("mount", "-t", "tmpfs", "-o", f"size={SMALL}", "small", str(place))

    def harm(self, chance: random.Random) -> None:
        """Fill it."""
        status = os.statvfs(self.place)
        size = max(0, status.f_bavail * status.f_frsize - chance.choice([0, chance.randrange(LEFT)]))
        with (self.place / "filler").open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, size))

    def heal(self) -> None:
        """Free the space."""
        (self.place / "filler").unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount it."""
        run("umount", str(self.place))


class ReadOnlyDisk(Disk):
    """An ext4 in a file; harmed, it has an error and turns read-only, under files that are open too."""

    fails = True

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.image = place.with_suffix(".ext4")
        with self.image.open("wb") as file:
            file.truncate(IMAGE)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self._mount()

    def harm(self, chance: random.Random) -> None:  # noqa: ARG002
        """An error of the file system, after which it takes no writes."""
        device = subprocess.run(
            ["findmnt", "-no", "SOURCE", str(self.place)], capture_output=True, text=True, check=True
        ).stdout.strip()
        Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("benchmarks/kills.py")

    def heal(self) -> None:
        """Check it and mount it again."""
        self.remove()
        subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True, check=False)
        self._mount()

    def remove(self) -> None:
        """Unmount it."""
        run("umount", str(self.place))

    def _mount(self) -> None:
        run("mount", "-o", "loop,errors=remount-ro", str(self.image), str(self.place))


DISKS: dict[str, type[Disk]] = {"plain": Disk, "slow": SlowDisk, "full": FullDisk, "read-only": ReadOnlyDisk}


def run(*words: str) -> None:
    """A command that must succeed."""
    subprocess.run(words, capture_output=True, check=True)
