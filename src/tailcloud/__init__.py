"""tailcloud: image classifiers that do not forget the tail.

The public names below are loaded on first use, so that ``import tailcloud`` and ``tailcloud --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailcloud import backbones, data, heads, losses, sampling
    from tailcloud.profile import cloud_sizes
    from tailcloud.serving import load

__version__ = "0.1.0"
__all__ = ["__version__", "backbones", "cloud_sizes", "data", "heads", "load", "losses", "sampling"]

_HOMES = {"cloud_sizes": "tailcloud.profile", "load": "tailcloud.serving"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"tailcloud.{name}")
    raise AttributeError(f"module 'tailcloud' has no attribute {name!r}")
