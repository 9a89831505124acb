"""Recipes: one TOML file decides a run, validated before anything is loaded."""

from tailcloud.recipe.checks import completed, head_kinds
from tailcloud.recipe.layers import (
    data_sets,
    differences,
    find_recipe,
    load_recipe,
    parse_setting,
    read_toml,
    resolve,
    shipped,
)
from tailcloud.recipe.schema import Augment, Data, Engine, Model, Part, Recipe, Selection, Stage

__all__ = [
    "Augment",
    "Data",
    "Engine",
    "Model",
    "Part",
    "Recipe",
    "Selection",
    "Stage",
    "completed",
    "data_sets",
    "differences",
    "find_recipe",
    "head_kinds",
    "load_recipe",
    "parse_setting",
    "read_toml",
    "resolve",
    "shipped",
]
