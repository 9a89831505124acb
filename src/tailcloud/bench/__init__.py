"""The paper's tables as data: which runs fill them, what was measured, and what was published.

``table`` reads a table from ``tables/``, or from a file of your own, and selects rows and columns of it (``--only``).
``plan`` lists the runs that fill it, and finds those with a common first stage. ``bench_runner`` trains what is
missing. ``filled_table`` joins table and results, ``table_text`` writes it as text and Markdown, ``bench_page`` as HTML
with charts. On a Ray cluster ``ray_cluster`` connects, ``ray_tasks`` submits the runs, ``ray_worker`` trains one, and
``folder_transfer`` copies its files.
"""

from tailcloud.bench.filled_table import FilledTable, TableCell
from tailcloud.bench.plan import BenchProtocol, BenchRun, plan_bench
from tailcloud.bench.table import PAPER_TABLES, TABLES, PaperTable, Reference, TableRow, filter_table, read_table

__all__ = [
    "PAPER_TABLES",
    "TABLES",
    "BenchProtocol",
    "BenchRun",
    "FilledTable",
    "PaperTable",
    "Reference",
    "TableCell",
    "TableRow",
    "filter_table",
    "plan_bench",
    "read_table",
]
