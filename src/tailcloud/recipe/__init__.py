"""Recipes: one TOML file decides a run, validated before anything is loaded."""

from tailcloud.recipe.library import data_sets, find_recipe, read_toml, shipped
from tailcloud.recipe.merge import differences, parse_setting
from tailcloud.recipe.resolve import load_recipe, resolve
from tailcloud.recipe.schema import Augment, Data, Engine, Model, Part, Recipe, Selection, Stage
from tailcloud.recipe.validate import completed, head_kinds

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
