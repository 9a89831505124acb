"""The table of heads on features against trained networks: ordered by images, part, size and epochs."""

from frozen_or_trained_table import parts


def record(images, part, size, epochs, accuracy, steps=None):
    about = {"data": "photos", "test_images": 160, "machine": {"processor": "a CPU", "torch": "2.13"}}
    what = {"images": images, "part": part, "size": size, "epochs": epochs, "steps": steps}
    return {**about, **what, "balanced_accuracy": accuracy, "commit": "c0ffee"}


def test_each_command_is_a_row():
    records = [
        record(600, "head", 128, 200, 71.26),
        record(150, "all", 128, 30, 55.0, steps=60),
        record(150, "head", 224, 100, 62.5),
        record(150, "head", 128, 100, 61.5),
        record(150, "last", 128, 75, 58.0, steps=150),
    ]
    table, _, *places = parts(records)
    assert table.splitlines()[2:] == [
        "| 150 | head on features | 128 | 100 |  | 61.5 |",
        "| 150 | head on features | 224 | 100 |  | 62.5 |",
        "| 150 | last layers | 128 | 75 | 150 | 58.0 |",
        "| 150 | everything | 128 | 30 | 60 | 55.0 |",
        "| 600 | head on features | 128 | 200 |  | 71.3 |",
    ]
    assert places == ["- `photos`, 160 test images; a CPU, torch 2.13, commit `c0ffee`"]
