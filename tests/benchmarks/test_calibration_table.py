"""The table of calibrated runs, and whether the records say what the page says of them."""

import json
from pathlib import Path

import calibration_table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def records():
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("calibration-*.json"))]


def test_a_run_is_a_row_with_its_errors_and_three_mixes():
    names = enumerate(calibration_table.MIXES)
    mixes = {mix: {"plain": 50.0 + number, "adjusted": 60.0 + number} for number, mix in names}
    record = {
        "method": "gcl",
        "top1": {"last": 60.0},
        "dataset": {
            "spec": "digits-lt",
            "fingerprint": "",
            "counts": [9],
            "images": {"train": 9000, "val": 1000, "test": 500},
        },
        "protocol": {"seed": 3},
        "machine": {"processor": "a processor"},
        "commit": "abcdef1",
        "calibrated": {"temperature": 0.736, "ece": 2.67, "before": {"ece": 13.2}},
        "priors": {"assumed": "uniform", **mixes},
    }
    head, table = calibration_table.parts([record])
    assert head.startswith("**digits-lt**, seed 3: 9,000 images to train on, 1,000 held out, 500 test images")
    assert "on a processor, commit `abcdef1`" in head
    assert table.splitlines()[-1] == "| `gcl` | 0.74 | 13.2 | 2.7 | 50.0 → 60.0 | 51.0 → 61.0 | 52.0 → 62.0 |"


def test_what_the_page_says_is_what_the_records_say():
    found = {record["method"]: record for record in records()}
    assert set(found) == {"ce", "gcl", "mislas"}
    priors = {method: record["priors"] for method, record in found.items()}
    assert priors["gcl"]["forward"]["adjusted"] > priors["ce"]["forward"]["plain"]
    gains = {method: mix["backward"]["adjusted"] - mix["backward"]["plain"] for method, mix in priors.items()}
    assert gains["ce"] > 20
    assert all(9.5 < gains[method] < 10.5 for method in ("gcl", "mislas"))
    calibrated = {method: record["calibrated"] for method, record in found.items()}
    assert calibrated["ce"]["temperature"] > 1 > max(calibrated[method]["temperature"] for method in ("gcl", "mislas"))
    assert all(calibrated[method]["ece"] < calibrated[method]["before"]["ece"] / 2 for method in ("ce", "gcl"))
    assert 0 < calibrated["mislas"]["ece"] - calibrated["mislas"]["before"]["ece"] < 2
    for method in ("gcl", "mislas"):
        few = calibrated[method]["groups"]["few"]
        assert few["before"]["ece"] < few["after"]["ece"]
