import cifar_figures_table

MEASURES = {"within": {"many": 0.5, "medium": 0.25, "few": None, "all": 0.45}}
RECORD = {
    "data": "cifar10-lt:100",
    "fingerprint": "f00",
    "runs": [
        {
            "run": "ce",
            "seed": 3,
            "epochs": [40],
            "top1": 70.04,
            "many": 80.0,
            "medium": 30.0,
            "counts": [500, 200, 50, 40],
            "gradients": [0.1, 0.3, 0.5, 0.9],
        },
        {
            "run": "no-clouds",
            "seed": 3,
            "epochs": [40, 6],
            "top1": 72.0,
            "many": 81.0,
            "medium": 36.0,
            "counts": [500, 200, 50, 40],
            "gradients": [0.2, 0.2, 0.4, 0.6],
        },
    ],
    "embeddings": [
        {
            "run": "ce",
            "split": "test",
            "measures": MEASURES
            | {name: {"many": 2.0, "medium": 1.0, "few": None, "all": 1.8} for name in ("between", "overlap", "near")},
        }
    ],
    "machine": {"processor": "a chip", "torch": "2.13"},
    "commit": "abc",
}


def test_gradients_are_means_over_the_classes_of_a_group_and_the_rarest_class_stands_alone():
    text = "\n".join(cifar_figures_table.parts(RECORD))
    assert "| cross-entropy | 70.0 | 80.0 | 30.0 | 0.200 | 0.700 | 0.900 |" in text
    assert "| GCL without clouds in stage 1 | 72.0 | 81.0 | 36.0 | 0.200 | 0.500 | 0.600 |" in text


def test_each_group_of_an_embedding_is_a_row():
    text = "\n".join(cifar_figures_table.parts(RECORD))
    assert "| cross-entropy | test | many | 0.50 | 2.00 | 2.00 | 2.0 |" in text
    assert "| cross-entropy | test | all | 0.45 | 1.80 | 1.80 | 1.8 |" in text
    assert "few" not in text


def test_it_says_where_it_was_measured():
    text = "\n".join(cifar_figures_table.parts(RECORD))
    assert (
        "- `cifar10-lt:100`, fingerprint `f00`, seed 3, 40 or 40 + 6 epochs\n- a chip, torch 2.13, commit `abc`" in text
    )
