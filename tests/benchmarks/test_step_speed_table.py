"""What augmentations cost, beside the first row."""

import step_speed_table


def test_rows_stand_beside_the_first_one():
    record = {
        "data": "cifar100-lt:100",
        "images": 10847,
        "runs": 6,
        "rows": [
            {"row": "gcl", "steps": 170, "alone": 0.130, "together": 0.050},
            {"row": "bcl", "steps": 43, "alone": 0.260, "together": 0.175},
        ],
        "machine": {"gpu": "a GPU", "cores": 16, "torch": "2.11"},
        "commit": "abc",
    }
    table, _, origin = step_speed_table.parts(record)
    assert "| GCL | 130 | 50 | 1.00 | 1.00 |" in table
    assert "| BCL | 260 | 175 | 2.00 | 3.50 |" in table
    assert origin.startswith("10,847 random images")
    assert origin.endswith("commit `abc`.")
