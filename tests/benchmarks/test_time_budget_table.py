"""The table of time budgets: what was asked and taken, and what was trained in it."""

from time_budget_table import parts

MACHINE = {"gpu": None, "processor": "a CPU"}


def record(**others):
    about = {"data": "photos", "device": "cpu", "cores": 2, "torch": "2.13", "machine": MACHINE, "commit": "c0ffee"}
    taken = {
        "budget": 180.0,
        "taken": 171.0,
        "over": -0.05,
        "trained": 0.625,
        "neighbours": 0,
        "late": False,
        "remarks": [],
    }
    what = {"epochs": [26], "planned": 29, "max_count": 0, "size": 128, "train": "head", "balanced_accuracy": 61.24}
    return {**about, **taken, **what, **others}


def rows(*records):
    table, _, *places = parts(records)
    return table.splitlines()[2:], places


def test_a_row_says_what_was_asked_and_what_was_taken():
    [row], places = rows(record())
    assert row == (
        "| `photos`, 2 CPU cores | none | 3\u00a0min 0\u00a0s | 2\u00a0min 51\u00a0s | −5 % | 62 % | "
        "head on features, 128 pixels, 26 epochs | 61.2 |"
    )
    assert places == ["- measured on a CPU, 2 cores, torch 2.13, commit `c0ffee`"]


def test_a_machine_that_turned_slower_and_images_that_were_left_out_are_said():
    slow = record(neighbours=2, late=True, remarks=["ended"], max_count=30, train="backbone.layer3+head", epochs=[5, 2])
    [row], _ = rows(slow)
    assert "| 2 from the first step on | 3\u00a0min" in row
    assert "last layers, 128 pixels, 5 + 2 of 29 epochs, at most 30 images of a class |" in row


def test_rows_are_ordered_by_device_data_budget_and_neighbours():
    gpu = record(device="cuda", machine={**MACHINE, "gpu": "a GPU"}, budget=60.0)
    found, places = rows(gpu, record(neighbours=1), record(), record(budget=60.0), record(data="cells", budget=600.0))
    assert [row.split(" | ")[:3] for row in found] == [
        ["| `cells`, 2 CPU cores", "none", "10\u00a0min 0\u00a0s"],
        ["| `photos`, 2 CPU cores", "none", "1\u00a0min 0\u00a0s"],
        ["| `photos`, 2 CPU cores", "none", "3\u00a0min 0\u00a0s"],
        ["| `photos`, 2 CPU cores", "1", "3\u00a0min 0\u00a0s"],
        ["| `photos`, a GPU", "none", "1\u00a0min 0\u00a0s"],
    ]
    assert len(places) == 2
