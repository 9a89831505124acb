"""A recipe for data that nobody made one for: chosen from the data and the machine, and explained."""

from tailcloud.choosing.budget import parse_budget
from tailcloud.choosing.choice import Choice, choose

__all__ = ["Choice", "choose", "parse_budget"]
