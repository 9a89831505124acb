"""Weights from a file: tensors by name and nothing else; a file that holds more is refused, never executed."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.resnet import ResNet
from tailcloud.backbones.timm_models import TimmBackbone
from tailcloud.errors import TailcloudError, UsageError

WRAPPERS = ("state_dict", "model", "model_state_dict")  # what training scripts put their weights under


@dataclass(frozen=True)
class Pretrained:
    """Where a model started from, and the normalisation that goes with it, one number for each channel."""

    file: str
    sha256: str
    mean: list[float]
    std: list[float]


def find_weights(file: str, root: str) -> str:
    """Where a file of weights is: a relative name is looked for here, and then in the folder of the data."""
    below = Path(root) / file
    return str(below) if not Path(file).is_file() and below.is_file() else file


def check_weights(file: str, sha256: str | None = None) -> None:
    """A file of weights is there, has a name that we read, and if a digest is given, that one or its beginning."""
    path = Path(file)
    if path.suffix not in {".safetensors", ".pth", ".pt", ".bin"}:
        raise UsageError(f'model.weights = "{file}" should be a file of tensors: .safetensors, .pth, .pt or .bin')
    if not path.is_file():
        raise TailcloudError(
            f'model.weights = "{file}" is not there; download the weights of that backbone first, or leave '
            "model.weights out to train from scratch"
        )
    if sha256 and not (found := _digest(path)).startswith(sha256.lower()):
        raise TailcloudError(
            f'model.weights = "{file}" is not the file that was asked for: its SHA-256 is {found}, '
            f"and model.weights_sha256 is {sha256}; download it again, or correct model.weights_sha256"
        )


def load_pretrained(backbone: nn.Module, file: str, channels: int, sha256: str | None = None) -> Pretrained:
    """Put the weights of a file into a backbone; what the file has beyond the backbone, a classifier say, is left."""
    check_weights(file, sha256)
    target = backbone.model if isinstance(backbone, TimmBackbone) else backbone
    tensors, own = read_tensors(Path(file)), target.state_dict()
    known = backbone if isinstance(backbone, Backbone) else Backbone()
    if isinstance(backbone, ResNet):
        _check_depth(own, tensors, file, known.left_in_files)
    given = [name for name in own if name in tensors or not _may_miss(name, known.not_in_files)]
    target.load_state_dict({**own, **{name: _fitting(name, own[name], tensors, file) for name in given}})
    mean, std = (_for_channels(values, channels) for values in (known.mean, known.std))
    return Pretrained(file, _digest(Path(file)), mean, std)


def _may_miss(name: str, start: str | None) -> bool:
    return start is not None and name.startswith(start)


def _check_depth(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], file: str, left: str | None) -> None:
    """A file of a deeper network is not taken for this one's because all names of this one are in it."""
    stages = {name.partition(".")[0] for name in own}
    for name in tensors:
        if name.partition(".")[0] in stages and name not in own and not _may_miss(name, left):
            raise UsageError(
                f"{file} has {name}, so it is for a deeper backbone than this; set model.backbone to the file's own"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a PyTorch one that holds tensors alone."""
    try:
        content = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise TailcloudError(
            f"{path} is damaged, or holds more than tensors, which is not read; save its state_dict as .safetensors"
        ) from None
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise TailcloudError(f"{path} holds no weights by name but {type(content).__name__}; save a state_dict in it")
    return {str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)}


def _fitting(name: str, own: Tensor, tensors: Mapping[str, Tensor], file: str) -> Tensor:
    """The file's tensor for a parameter; of filters for colours, the sum where images are grey."""
    if name.endswith("num_batches_tracked"):  # older files do not have it, and nothing depends on it
        return own
    if name not in tensors:
        raise UsageError(f"{file} has no {name}, so it is not for this backbone; set model.backbone to the file's own")
    value = tensors[name]
    if value.ndim == own.ndim == 4 and own.shape[1] == 1 and value.shape[1] == 3:
        value = value.sum(dim=1, keepdim=True)
    if value.shape != own.shape:
        raise UsageError(
            f"{file} has {name} of shape {list(value.shape)}, and this backbone one of {list(own.shape)}; "
            "set model.backbone to the file's own"
        )
    return value


def _for_channels(values: tuple[float, ...], channels: int) -> list[float]:
    """One number for each channel; their mean where an image has another number of channels."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
