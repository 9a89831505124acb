"""Recipes: one TOML file decides a run, and is validated before anything is loaded.

``schema`` has every table and field. ``library`` finds recipes and methods, ``resolve`` merges a recipe with its method
and the user's settings (by ``merge``), ``validate`` and ``parameter_names`` check it, ``old_words`` refuses words of
older versions.
"""

from tailcloud.data.augment import Augment
from tailcloud.recipe.library import data_sets, find_recipe, further_recipes, read_toml, shipped
from tailcloud.recipe.merge import differences, parse_setting
from tailcloud.recipe.resolve import load_recipe, resolve
from tailcloud.recipe.schema import Data, Engine, Model, PartSpec, Recipe, Selection, Stage
from tailcloud.recipe.validate import completed, head_kinds

__all__ = [
    "Augment",
    "Data",
    "Engine",
    "Model",
    "PartSpec",
    "Recipe",
    "Selection",
    "Stage",
    "completed",
    "data_sets",
    "differences",
    "find_recipe",
    "further_recipes",
    "head_kinds",
    "load_recipe",
    "parse_setting",
    "read_toml",
    "resolve",
    "shipped",
]
