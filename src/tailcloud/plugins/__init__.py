"""Parts from outside: somebody's own loss, sampler, head, backbone or method, by the same names as tailcloud's."""

from tailcloud.plugins.discovery import fingerprint, load_entry_points, load_plugin, loaded_files, words
from tailcloud.plugins.registry import (
    register_backbone,
    register_head,
    register_loss,
    register_method,
    register_sampler,
)
from tailcloud.plugins.usage import uses_plugins

__all__ = [
    "fingerprint",
    "load_entry_points",
    "load_plugin",
    "loaded_files",
    "register_backbone",
    "register_head",
    "register_loss",
    "register_method",
    "register_sampler",
    "uses_plugins",
    "words",
]
