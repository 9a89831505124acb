"""Epochs of rows of the ladder are timed, alone and together."""

import json

import step_speed


def test_each_row_is_timed_alone_and_together(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(step_speed, "SPEC", "digits-lt")
    monkeypatch.setattr(step_speed, "EPOCHS", 1)
    monkeypatch.setattr(step_speed.noise_images, "write_cifar", lambda *_: None)
    written = tmp_path / "steps.json"
    step_speed.main(["--rows", "gcl", "logit-adjust", "--together", "2", "--device", "cpu", "--write", str(written)])
    record = json.loads(written.read_text())
    assert [row["row"] for row in record["rows"]] == ["gcl", "logit-adjust"]
    assert (record["images"], record["runs"]) == (331, 2)
    assert all(row["steps"] == 6 and row["alone"] > 0 and row["together"] > 0 for row in record["rows"])
    assert "each of 2" in capsys.readouterr().out
