"""The table of candidates: means over seeds and data sets, in the order of the tuning parts alone."""

from second_stage_table import parts

RUNS = {
    ("cifar10-lt-tune:100", "a"): [70.0, 72.0],
    ("cifar10-lt-tune:100", "b"): [74.0, 74.0],
    ("cifar100-lt-tune:100", "a"): [40.0, 40.0],
    ("cifar100-lt-tune:100", "b"): [39.0, 39.0],
    ("cifar10-lt:100", "a"): [90.0, 90.0],
    ("cifar10-lt:100", "b"): [80.0, 82.0],
}


def record():
    runs = [
        {"spec": spec, "candidate": name, "seed": seed, "balanced_accuracy": value}
        for (spec, name), values in RUNS.items()
        for seed, value in enumerate(values)
    ]
    machine = {"gpu": "a GPU", "processor": "a CPU"}
    return {"candidates": {"a": [], "b": []}, "runs": runs, "machine": machine, "commit": "c0ffee"}


def test_the_best_on_the_tuning_parts_comes_first_whatever_the_cells_say():
    table, about = parts([record()])
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.strip().splitlines()]
    assert lines[2] == ["b", "56.50", "74.00 ± 0.00", "39.00 ± 0.00", "81.00 ± 1.41", "81.00"]
    assert lines[3] == ["a", "55.50", "71.00 ± 1.41", "40.00 ± 0.00", "90.00 ± 0.00", "90.00"]
    assert about.endswith("over 2 seeds; on a GPU, commit `c0ffee`.")
