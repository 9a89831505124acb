"""Checkpoints: named tensors and where the run stands, in one safetensors file that is whole or not used.

A file carries a digest of everything in it. The newest whole checkpoint wins; a damaged one is reported and skipped.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, check_format, write_atomically

KEPT = 2  # of each stage: the last one, and the one before it in case the last is damaged


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a run (``model.…``, ``best.…``, the optimiser's) and its state, after an epoch or a step."""

    tensors: Mapping[str, Tensor]
    state: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors under a prefix, without it."""
        start = f"{prefix}."
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}


class Damaged(Exception):
    """A file that is cut short, altered, or was never a checkpoint."""


def save_checkpoint(folder: Path, stage: str, epoch: int, checkpoint: Checkpoint, step: int = 0) -> None:
    """Write the checkpoint of an epoch, or of a step after it; then drop older ones of the stage beyond the one before.

    Their names sort by time: "_" comes after ".".
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    state = json.dumps(checkpoint.state)
    metadata = {"format": str(FORMAT), "state": state, "digest": _digest(tensors, state)}
    place = f"{stage}-{epoch:07d}" + (f"_{step:09d}" if step else "")
    write_atomically(folder / f"{place}.safetensors", save(tensors, metadata))
    for old in sorted(folder.glob(f"{stage}-*.safetensors"))[:-KEPT]:
        old.unlink(missing_ok=True)


def load_newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and a sentence for each damaged one that was passed over."""
    remarks: list[str] = []
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            return load_checkpoint(path), remarks
        except Damaged:
            remarks.append(f"{path} is cut short, altered or not ours; going back to the checkpoint before it.")
    if remarks:
        raise TailcloudError(
            f"none of the checkpoints in {folder} is whole; restore them from a copy, or train again in another folder"
        )
    return None, remarks


def peek(folder: Path) -> dict[str, Any] | None:
    """The state in the newest readable checkpoint, without its tensors and unchecked; None when there is none."""
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            with safe_open(path, framework="pt") as file:
                state = json.loads((file.metadata() or {})["state"])
        except (SafetensorError, OSError, KeyError, ValueError):
            continue
        if isinstance(state, dict):
            return state
    return None


def load_checkpoint(path: Path) -> Checkpoint:
    """One checkpoint, read whole and checked against its digest."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        raise Damaged(path) from None
    except OSError as error:
        raise TailcloudError(f"{path} cannot be read: {error.strerror or error}") from None
    if "digest" not in metadata or "state" not in metadata:
        raise Damaged(path)
    found = metadata.get("format", "")
    check_format(path, int(found) if found.isdecimal() else found)
    try:
        whole = _digest(tensors, metadata["state"]) == metadata["digest"]
    except TypeError:  # a type of number that is not ours
        whole = False
    if not whole:
        raise Damaged(path)
    return Checkpoint(tensors, json.loads(metadata["state"]))


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    digest = sha256(state.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()
