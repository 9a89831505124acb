"""What docs/distributed.md says was measured is what the records say."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "distributed.md").read_text()


def record(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def test_a_run_survives_the_deaths_that_the_page_counts():
    killed = record("killed-ranks")
    assert killed["same_bits"] is (killed["sha256"]["killed"] == killed["sha256"]["whole"])
    assert killed["same_bits"]
    assert {death["rank"] for death in killed["deaths"]} == {0, 1}
    assert f"SIGKILL {len(killed['deaths'])} times" in PAGE


def test_memory_stays_as_the_page_says():
    first, other = record("rank-memory")["ranks"]
    assert f"{first['100']} MB after 100 epochs and {first['1000']} MB after 1,000" in PAGE
    assert f"{other['100']} MB and {other['1000']} MB for the other one" in PAGE
    assert all(rank["1000"] < 1.005 * rank["100"] for rank in (first, other))
