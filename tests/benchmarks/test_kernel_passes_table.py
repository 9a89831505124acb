"""The table of kernels that are left out one at a time: each column is what it says."""

from kernel_passes_table import parts


def test_each_column_has_its_own_microseconds():
    row = {"kernels": "all", "alone": 1692.3, "of 8": 273.3, "of 16": 267.6, "evaluation": 2054.1}
    record = {"images": 64, "evaluated": 2048, "rows": [row], "machine": {"gpu": "a GPU", "torch": "2.11"}}
    table, about = parts({**record, "commit": "c0ffee"})
    header, _, line = table.splitlines()
    assert header == "| kernels | one run | 8 runs, each | 16 runs, each | evaluation of 2,048 images |"
    assert line == "| all | 1,692 | 273 | 268 | 2,054 |"
    assert "with 64 images. Measured on a GPU, torch 2.11, commit `c0ffee`." in about
