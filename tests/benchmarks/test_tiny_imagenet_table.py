import tiny_imagenet_table


def run(method, seed, top1, stages):
    figures = {"top1": {"last": top1}, "many": 50.0, "medium": None, "few": top1 / 2}
    return {
        "method": method,
        "protocol": {"seed": seed},
        "model": {"parameters": 11_200_000},
        **figures,
        "stages": stages,
    }


RECORD = {
    "data": "small pictures",
    "backbone": "resnet18",
    "size": 64,
    "epochs": 9,
    "seconds": 61,
    "counts": [9, 1],
    "machine": {"gpu": "a card", "processor": "a chip"},
    "commit": "abc",
    "runs": [
        run("ce", 0, 40.0, [{"top1": 40.0}]),
        run("gcl", 0, 50.0, [{"top1": 45.0}, {"top1": 50.0}]),
        run("gcl", 1, 52.0, [{"top1": 47.0}, {"top1": 52.0}]),
    ],
}


def test_a_method_is_a_row_over_its_seeds():
    text = "\n".join(tiny_imagenet_table.parts([RECORD]))
    assert "10 training images of 2 classes, 9 to 1 each; 64 pixels, 9 epochs in stage 1; 3 runs side by side" in text
    assert "on a card, commit `abc`" in text
    assert "| resnet18 | ce | 1 | 40.0 | 50.0 | n/a | 20.0 |  | 11.2\u00a0M |" in text
    assert "| resnet18 | gcl | 2 | 51.0 ± 1.4 | 50.0 ± 0.0 | n/a | 25.5 ± 0.7 | 46.0 ± 1.4 | 11.2\u00a0M |" in text


def test_interrupted_runs_have_no_duration():
    assert "3 runs side by side (interrupted and resumed) on a card" in tiny_imagenet_table.origin(
        RECORD | {"seconds": None}
    )


def test_second_stages_stand_below_the_first():
    figures = {"top1": 50.0, "many": 60.0, "medium": None, "few": 40.0}
    run_of = {"seed": 0, "counts": [9, 1], "stage1": figures, "cb": {**figures, "few": 45.0}}
    record = {
        "data": "x",
        "epochs": 3,
        "samplers": ["cb"],
        "runs": [run_of],
        "machine": {"gpu": "a card"},
        "commit": "abc",
    }
    text = "\n".join(tiny_imagenet_table.samplers([record]))
    assert "10 training images of 2 classes, 9 to 1 each, 32 pixels, resnet20, 3 epochs in stage 1, seeds: 1" in text
    assert text.index("| without stage 2 | 50.0 | 60.0 | n/a | 40.0 |") < text.index(
        "= cb` | 50.0 | 60.0 | n/a | 45.0 |"
    )
