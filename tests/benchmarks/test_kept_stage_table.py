"""The table of rules for the kept stage: the figures of each rule, and how often it keeps the last stage."""

from kept_stage_table import RULES, parts


def test_each_rule_has_its_own_figures():
    means = {
        rule: {"top1": 60.0 + place, "balanced_accuracy": 50.0 + place, "keeps_last": place}
        for place, rule in enumerate([*RULES, "a rule that is not shown"])
    }
    machine = {"gpu": None, "processor": "a CPU", "torch": "2.13"}
    record = {"data": "photos", "command": "tailcloud train", "means": means, "runs": [{}] * 3, "machine": machine}
    table, _, place = parts([{**record, "commit": "c0ffee"}])
    assert table.splitlines()[2:] == [
        "| `photos` | the last stage, always | 0 of 3 | 60.0 | 50.0 |",
        "| `photos` | the first stage, always | 1 of 3 | 61.0 | 51.0 |",
        "| `photos` | the last stage if it gains more than the error | 2 of 3 | 62.0 | 52.0 |",
        "| `photos` | **as tailcloud does** | 3 of 3 | 63.0 | 53.0 |",
    ]
    assert place == "- `photos`: `tailcloud train`, seeds 0 to 2; a CPU, torch 2.13, commit `c0ffee`"
