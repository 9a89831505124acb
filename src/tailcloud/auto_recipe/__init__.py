"""A recipe for data that nobody made one for: chosen from the data and the machine, and explained."""

from tailcloud.auto_recipe.choice import Choice, choose
from tailcloud.auto_recipe.time_budget import parse_budget

__all__ = ["Choice", "choose", "parse_budget"]
