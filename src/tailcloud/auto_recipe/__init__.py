"""Automatic recipes: chosen from the data, the device and a time budget, with a reason for each decision."""

from tailcloud.auto_recipe.choice import Choice, choose
from tailcloud.auto_recipe.time_budget import parse_budget

__all__ = ["Choice", "choose", "parse_budget"]
