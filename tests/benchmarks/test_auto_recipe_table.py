import auto_recipe_table


def run(seed, top1):
    counts = {"counts": [9, 1], "images": {"train": 9, "val": 1, "test": 4}}
    figures = {"top1": top1, "many": None, "medium": None, "few": top1, "ece": 1.0, "after": [top1 - 9, top1 - 1, top1]}
    return {"seed": seed, "seconds": 61, "backbone": "resnet8", "size": 8, "epochs": [3, 1, 0], **figures, **counts}


def test_a_record_is_a_table_over_its_seeds():
    about = {"processor": "a chip", "threads": 1, "cores": 2}
    record = {"data": "digits", "budget": "30s", "busy": 0.5, "machine": about, "commit": "abc"}
    text = "\n".join(auto_recipe_table.parts([{**record, "runs": {"chosen": [run(0, 80.0), run(1, 82.0)]}}]))
    assert "10 training images of 2 classes, 9 to 1 each, and 4 test images; budget 30s" in text
    figures = "81.0 ± 1.4 | n/a | n/a | 81.0 ± 1.4 | 72.0 ± 1.4, 80.0 ± 1.4"
    assert f"| chosen | resnet8, 8 pixels | 3 + 1 | {figures} | 1\u00a0min 1\u00a0s |" in text


def test_a_gpu_is_named_in_place_of_cores():
    record = {"data": "x", "budget": "30s", "busy": 0.5, "machine": {"gpu": "a card"}, "commit": "abc"}
    text = "\n".join(auto_recipe_table.parts([{**record, "runs": {"chosen": [run(0, 80.0)]}}]))
    assert "budget 30s; one a card, commit `abc`" in text
