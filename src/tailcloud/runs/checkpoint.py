"""Checkpoints: named tensors and the state of a run, in one safetensors file.

A file has a digest of its content. The latest intact checkpoint is used; a damaged one is reported and skipped.
``TrainingProgress`` is the part of the state that says how far a run is.
"""

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, check_format, check_regular, write_atomically

KEPT_PER_STAGE = 2  # the latest checkpoint, and the one before it in case the latest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a run (``model.…``, ``best.…``, the optimiser's) and its state, after an epoch or a step."""

    tensors: Mapping[str, Tensor]
    state: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors under a prefix, without it."""
        start = f"{prefix}."
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}


@dataclass
class TrainingProgress:
    """The progress of a run between two epochs, or two steps.

    Figures of stages are plain dicts here, because checkpoints contain them; ``runs.result`` has them typed.
    """

    stage: str = "stage1"
    epoch: int = 0  # epochs of this stage that are done
    seconds: float = 0.0  # spent on this stage, over all resumed parts
    best: dict[str, Any] | None = None  # {"epoch", "top1", "on", "by"} of this stage
    finished: list[dict[str, Any]] = field(default_factory=list)  # the figures of finished stages
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # remarks of head transforms
    step: int = 0  # steps of the next epoch that are done
    spent: float = 0.0  # seconds spent on these steps
    early_end: tuple[int, float, int] | None = None  # of this stage, if a time limit shortened it
    ended: bool = False  # whether the last epoch of this stage is done
    evaluated: int | None = 0  # epochs of this stage that were evaluated; None: an older version did not count them

    def state(self) -> dict[str, Any]:
        """Everything but the tensors, for JSON, as it is now: lists that grow later are copied."""
        return {f.name: copy(getattr(self, f.name)) for f in fields(self) if f.name != "best_weights"}

    def note_best(self, epoch: int, by: float, top1: float, on: str) -> bool:
        """Count an evaluated epoch, and record it if it is the best so far on the deciding split (``by``).

        Returns:
            Whether it is.
        """
        self.evaluated = None if self.evaluated is None else self.evaluated + 1
        if self.best and by <= self.best["by"]:
            return False
        self.best = {"epoch": epoch, "top1": top1, "on": on, "by": by}
        return True

    def stage_is_over(self, epochs: int) -> bool:
        """Whether a stage of so many epochs is trained; a time limit may have ended it earlier."""
        return self.ended or self.epoch == epochs

    def next_stage(self, name: str) -> None:
        """Start another stage."""
        self.early_end, self.ended, self.evaluated = None, False, 0
        self.stage, self.epoch, self.seconds, self.best, self.best_weights = name, 0, 0.0, None, {}
        self.begin_epoch(0)

    def begin_epoch(self, done: int) -> None:
        """Start the epoch after ``done`` epochs."""
        self.epoch, self.step, self.spent = done, 0, 0.0


class CheckpointDamaged(Exception):
    """A file is truncated, altered, or not a checkpoint."""


def save_checkpoint(folder: Path, stage: str, epoch: int, checkpoint: Checkpoint, step: int = 0) -> None:
    """Write the checkpoint after an epoch, or after a step of the next one; then delete old ones of the stage.

    File names sort by time: "_" comes after ".".
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    state = json.dumps(checkpoint.state)
    metadata = {"format": str(FORMAT), "state": state, "digest": _digest(tensors, state)}
    name = f"{stage}-{epoch:07d}" + (f"_{step:09d}" if step else "")
    content = save({key: value.numpy() for key, value in tensors.items()}, metadata)  # half the time of tensors
    write_atomically(folder / f"{name}.safetensors", content)
    for old in sorted(folder.glob(f"{stage}-*.safetensors"))[:-KEPT_PER_STAGE]:
        old.unlink(missing_ok=True)


def load_latest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The latest intact checkpoint, and a sentence for each damaged one that was skipped."""
    remarks: list[str] = []
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            return load_checkpoint(path), remarks
        except CheckpointDamaged:
            remarks.append(f"{path} is truncated, altered or not a checkpoint; using the checkpoint before it.")
    if remarks:
        raise TailcloudError(
            f"all checkpoints in {folder} are damaged; restore them from a copy, or train again in another folder"
        )
    return None, remarks


def read_latest_state(folder: Path) -> dict[str, Any] | None:
    """The state in the latest readable checkpoint, unchecked and without tensors; None if no checkpoint is readable."""
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            check_regular(path)
            with safe_open(path, framework="pt") as file:
                state = json.loads((file.metadata() or {})["state"])
        except (SafetensorError, OSError, KeyError, ValueError):
            continue
        if isinstance(state, dict) and isinstance(state.get("environment", {}), dict):
            return state
    return None


def load_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint and check its digest; ``CheckpointDamaged`` if it differs."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        raise CheckpointDamaged(path) from None
    except OSError as error:
        raise TailcloudError(f"{path} cannot be read: {error.strerror or error}") from None
    if "digest" not in metadata or "state" not in metadata:
        raise CheckpointDamaged(path)
    file_format = metadata.get("format", "")
    check_format(path, int(file_format) if file_format.isdecimal() else file_format)
    try:
        intact = _digest(tensors, metadata["state"]) == metadata["digest"]
    except TypeError:  # NumPy lacks the dtype, so that tailcloud did not write it
        intact = False
    if not intact:
        raise CheckpointDamaged(path)
    return Checkpoint(tensors, json.loads(metadata["state"]))


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    digest = sha256(state.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()
