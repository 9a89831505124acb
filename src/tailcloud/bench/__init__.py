"""The paper's tables as data: which runs fill them, what was measured, and what was published.

A ``table`` is read from ``tables/``, and a ``choice`` takes some of it. The ``plan`` says which runs fill it,
``sharing`` which of them have a first stage in common; ``records`` finds the cell of a result. ``filled`` is the table
with what was measured: in ``wording``, or as a ``page`` with a ``chart``. On a Ray cluster, ``cluster`` says where,
``on_ray`` hands out the runs, ``worker`` trains one there, and ``parcels`` carries its files.
"""

from tailcloud.bench.filled_table import Cell, Filled
from tailcloud.bench.plan import Planned, Protocol, plan
from tailcloud.bench.row_filter import narrowed
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
