"""Plugins: a user's own parts (losses, objectives, heads …) and methods, which recipes use by name."""

from tailcloud.plugins.discovery import (
    load_entry_points,
    load_plugin,
    loaded_files,
    plugin_arguments,
    plugins_fingerprint,
)
from tailcloud.plugins.registry import (
    register_backbone,
    register_head,
    register_head_transform,
    register_loss,
    register_method,
    register_objective,
    register_optimizer,
    register_sampler,
    uses_plugins,
)

__all__ = [
    "load_entry_points",
    "load_plugin",
    "loaded_files",
    "plugin_arguments",
    "plugins_fingerprint",
    "register_backbone",
    "register_head",
    "register_head_transform",
    "register_loss",
    "register_method",
    "register_objective",
    "register_optimizer",
    "register_sampler",
    "uses_plugins",
]
