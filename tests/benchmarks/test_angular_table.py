"""gcl-angular beside gcl: on the tuning parts from the records of the choice, in the cells beside the paper."""

from angular_table import FIRST, parts

from helpers.synthetic_runs import make_result
from tailcloud.bench import read_table
from tailcloud.reporting.tables import by_dataset


def measured(spec, seed, accuracy, method="gcl-angular"):
    result = make_result(10, method=method, seed=seed)
    result["dataset"]["spec"], result["balanced_accuracy"] = spec, accuracy
    return result


def test_every_data_set_has_a_row_the_tuning_parts_first():
    runs = [("cifar10-lt:100", 0, 83.0), ("cifar10-lt:100", 1, 85.0), ("cifar10-lt-tune:100", 0, 82.0)]
    tables = by_dataset([*(measured(*run) for run in runs), measured("digits-lt", 0, 90.0, "gcl")])
    choice = [("cifar10-lt-tune:100", FIRST, 80.0), ("cifar10-lt:100", FIRST, 81.0), ("cifar10-lt:100", "other", 9.0)]
    records = [{"runs": [dict(zip(("spec", "candidate", "balanced_accuracy"), run, strict=True)) for run in choice]}]
    table, _ = parts(tables, records, read_table("table1"))
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.strip().splitlines()[2:]]
    assert lines == [
        ["cifar10-lt-tune:100", "80.0 (1)", "82.0 (1)", "n/a"],
        ["cifar10-lt:100", "81.0 (1)", "84.0 ± 1.4 (2)", "82.68"],
    ]
