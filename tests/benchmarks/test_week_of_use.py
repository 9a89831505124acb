"""Nothing grows while tailcloud trains and predicts: a bounded version of benchmarks/week_of_use.py."""

import gc
import json
import os
from pathlib import Path

import pytest
import torch
import week_of_use
from week_of_use import PARTS, Meter, measure, summary

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="samples are read from /proc")

SHARES = {"epochs": 0.012, "predictions": 0.002, "loaded": 0.004, "runs": 0.02}
RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "week-of-use.json"


class TensorMeter(Meter):
    """Counts tensors too, in the middle and at the end: memory of a process is too coarse for a few units."""

    def __init__(self, home, units):
        super().__init__(home, units)
        self.counted, self.tensors = {units // 2, units}, []

    def count(self):
        super().count()
        if self.done in self.counted:
            self.tensors.append(sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()))


@pytest.mark.parametrize("name", SHARES)
def test_nothing_grows(name, tmp_path, monkeypatch):
    meters = []
    monkeypatch.setattr(week_of_use, "Meter", lambda *about: meters.append(TensorMeter(*about)) or meters[0])
    found = measure(name, SHARES[name], tmp_path)
    assert found["units"] >= 4
    for figure in ("handles", "threads", "processes"):
        assert found[figure]["end"] <= found[figure]["middle"] + 1, (figure, found["samples"])
    middle, end = meters[0].tensors
    assert end <= middle
    if name != "epochs":  # which writes a checkpoint and a log
        assert found["disk_mb"]["end"] == found["disk_mb"]["middle"]


def test_what_grows_is_seen(tmp_path, monkeypatch):
    opened = []

    def leaks(meter, units):
        for unit in range(units):
            opened.append(os.open(tmp_path / f"file{unit}", os.O_CREAT | os.O_WRONLY))
            os.write(opened[-1], bytes(1_000_000))
            meter.count()

    monkeypatch.setitem(PARTS, "leaks", (20, "files", leaks))
    found = measure("leaks", 1.0, tmp_path)
    for file in opened:
        os.close(file)
    assert found["handles"]["slope_per_1000"] == found["disk_mb"]["slope_per_1000"] == 1000
    assert found["handles"]["end"] - found["handles"]["start"] == 19
    assert summary([{"done": 1, "handles": 3}], "handles")["slope_per_1000"] == 0


def test_the_record_has_all_parts_in_full_and_nothing_grows():
    parts = {part["part"]: part for part in json.loads(RECORD.read_text())["parts"]}
    assert {name: part["units"] for name, part in parts.items()} == {name: units for name, (units, *_) in PARTS.items()}
    for part in parts.values():
        results = 0.25 * part["units"] if part["part"] == "fleet" else 0.0  # MB that the command keeps until its end
        assert part["resident_mb"]["end"] < 1.01 * part["resident_mb"]["middle"] + results
        for figure in ("handles", "threads", "processes"):
            assert part[figure]["end"] <= part[figure]["start"] + 2
