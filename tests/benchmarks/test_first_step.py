import json

import first_step


def test_a_record_has_the_seconds_to_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(first_step, "CLASSES", 3)
    monkeypatch.setattr(first_step, "TURNS", ["first"])
    quick = ["model.weights=none", "data.size=8", "stage1.epochs=1", "model.backbone=resnet8"]
    words = [word for setting in quick for word in ("--set", setting)]
    first_step.main(["--images", "60", "--budget", "5s", "--out", str(tmp_path / "record.json"), *words])
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["turn"] for row in record["rows"]] == ["first"]
    for row in record["rows"]:
        seconds = row["seconds"]
        assert 0 < seconds["headers_read"] < seconds["recipe_chosen"] < seconds["first_step"] < seconds["end"]
    assert record["cores"] >= 1
    assert record["commit"]
