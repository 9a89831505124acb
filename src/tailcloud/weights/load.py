"""Loads a file of named tensors into a backbone. A file with anything else is refused; nothing is executed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.efficientnet_lite import EfficientNetLite
from tailcloud.backbones.resnet import ResNet
from tailcloud.backbones.timm_models import TimmBackbone
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.weights.resolve import PretrainedWeights

WRAPPERS = ("state_dict", "model", "model_state_dict")  # keys under which training scripts save weights


def load_pretrained(backbone: nn.Module, weights: PretrainedWeights, channels: int) -> PretrainedWeights:
    """Load a weights file into a backbone; other tensors of the file, such as a classifier, are ignored.

    Returns:
        The weights, with the normalisation that they expect for each channel.
    """
    file = weights.file
    target = backbone.model if isinstance(backbone, TimmBackbone) else backbone
    tensors, own = read_tensors(Path(file)), target.state_dict()
    known = backbone if isinstance(backbone, Backbone) else Backbone()
    if isinstance(backbone, EfficientNetLite) and "_conv_stem.weight" in tensors:
        tensors = in_order(own, tensors, file)
    if isinstance(backbone, ResNet):
        _check_depth(own, tensors, file, known.unused_in_files)
    given = [name for name in own if name in tensors or not _may_miss(name, known.missing_in_files)]
    target.load_state_dict({**own, **{name: _fitting(name, own[name], tensors, file) for name in given}})
    mean, std = weights.mean or known.mean, weights.std or known.std
    return replace(weights, mean=_for_channels(mean, channels), std=_for_channels(std, channels))


def in_order(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], file: str) -> dict[str, Tensor]:
    """Tensors of another implementation of the same network, named as here: both have them in the same order."""
    names = [name for name in own if not name.endswith("num_batches_tracked")]
    values = [value for name, value in tensors.items() if not name.startswith("_fc") and "num_batches" not in name]
    if len(names) != len(values):
        raise UsageError(
            f"{file} has {len(values)} tensors, but this backbone needs {len(names)}; set model.backbone to that of "
            "the file"
        )
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


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a PyTorch file with tensors only."""
    try:
        content = load_file(path) if path.suffix == ".safetensors" else _load_pytorch_file(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception:  # on a damaged file PyTorch raises anything
        raise TailcloudError(
            f"{path} is damaged or contains more than tensors; save its state_dict as .safetensors"
        ) from None
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise TailcloudError(f"{path} contains a {type(content).__name__} instead of named weights; save a state_dict")
    return {str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)}


def _load_pytorch_file(path: Path) -> object:
    """The content of a PyTorch file with tensors only; a file that would unpack to more than its own size is refused.

    PyTorch never compresses, and a compressed file of a few megabytes may have gigabytes of zeros.
    """
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it is compressed")
    return torch.load(path, map_location="cpu", weights_only=True)


def _fitting(name: str, own: Tensor, tensors: Mapping[str, Tensor], file: str) -> Tensor:
    """The tensor of the file for a parameter; colour filters are summed for grey images."""
    if name.endswith("num_batches_tracked"):  # older files lack it, and nothing depends on it
        return own
    if name not in tensors:
        raise UsageError(f"{file} has no {name}, so it is for another backbone; set model.backbone to that of the file")
    value = tensors[name]
    if own.ndim == 4 and own.shape[1] == 1 and value.shape == (own.shape[0], 3, *own.shape[2:]):
        value = value.sum(dim=1, keepdim=True)
    if value.shape != own.shape:
        raise UsageError(
            f"{file} has {name} of shape {list(value.shape)}, but this backbone needs {list(own.shape)}; "
            "set model.backbone to that of the file"
        )
    return value


def _for_channels(values: Sequence[float], channels: int) -> list[float]:
    """One number for each channel; their mean if images have another number of channels."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
