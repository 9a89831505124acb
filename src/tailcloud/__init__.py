"""tailcloud: image classifiers that do not forget the tail.

The public names below are loaded on first use, so that ``import tailcloud`` and ``tailcloud --help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailcloud import backbones, data, heads, losses, sampling
    from tailcloud.estimator import LongTailClassifier
    from tailcloud.launch.average import average
    from tailcloud.launch.train import Run, train
    from tailcloud.plugins import (
        load_plugin,
        register_backbone,
        register_head,
        register_head_transform,
        register_loss,
        register_method,
        register_objective,
        register_optimizer,
        register_sampler,
    )
    from tailcloud.profile import cloud_sizes
    from tailcloud.serving.load import load

__version__ = "0.2.0"
__all__ = [
    "LongTailClassifier",
    "Run",
    "__version__",
    "average",
    "backbones",
    "cloud_sizes",
    "data",
    "heads",
    "load",
    "load_plugin",
    "losses",
    "register_backbone",
    "register_head",
    "register_head_transform",
    "register_loss",
    "register_method",
    "register_objective",
    "register_optimizer",
    "register_sampler",
    "sampling",
    "train",
]

_PLUGINS = [name for name in __all__ if name.startswith("register_") or name == "load_plugin"]
_HOMES = {
    "LongTailClassifier": "tailcloud.estimator",
    "Run": "tailcloud.launch.train",
    "average": "tailcloud.launch.average",
    "train": "tailcloud.launch.train",
    "cloud_sizes": "tailcloud.profile",
    "load": "tailcloud.serving",
    **dict.fromkeys(_PLUGINS, "tailcloud.plugins"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"tailcloud.{name}")
    raise AttributeError(f"module 'tailcloud' has no attribute {name!r}")
