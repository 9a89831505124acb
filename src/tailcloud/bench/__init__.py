"""The paper's tables as data: which runs fill them, what was measured, and what was published."""

from tailcloud.bench.choice import narrowed
from tailcloud.bench.filled import Cell, Filled
from tailcloud.bench.plan import Planned, Protocol, plan
from tailcloud.bench.table import TABLES, Reference, Row, Table, read_table

__all__ = [
    "TABLES",
    "Cell",
    "Filled",
    "Planned",
    "Protocol",
    "Reference",
    "Row",
    "Table",
    "narrowed",
    "plan",
    "read_table",
]
