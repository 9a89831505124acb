"""What a progress bar, or a printed line, says after an epoch."""

import pytest

from tailcloud.cli.console import out
from tailcloud.cli.progress import shown_progress
from tailcloud.recipe import load_recipe


@pytest.mark.parametrize("prefix", ["", "val_"])
def test_an_epoch_that_was_not_evaluated_shows_the_last_known_accuracy(prefix):
    stage = load_recipe("digits-lt/ce", [{"stage1": {"epochs": 5}}]).stage1
    accuracy = {"top1": 81.24, "balanced_accuracy": 71.0} | {f"{prefix}top1": 71.26, f"{prefix}balanced_accuracy": 61.0}
    with out.capture() as printed, shown_progress(["a run"]) as (observer,):
        for name in ("stage1", "stage2"):
            observer.stage_started(name, stage, 0)
            for epoch in range(1, 6):
                line = {"stage": name, "epoch": epoch, "loss": 0.5, "seconds": 0.1}
                observer.epoch_done(line | (accuracy if epoch in {2, 5} and name == "stage1" else {}))
    said = [line.split("  ")[1:-1] for line in printed.get().splitlines()]
    known = f"{'val' if prefix else 'test'} 71.3 %, balanced 61.0 %"
    loss = ["loss 0.500"]
    assert said == [loss, [*loss, known], *[[*loss, f"{known} (epoch 2)"]] * 2, [*loss, known], *[loss] * 5]


def test_a_sentence_about_the_data_is_printed_once_for_all_runs(capsys):
    with shown_progress(["one", "another"]) as observers:
        for observer in observers:
            observer.note("There is no tail.")
    assert capsys.readouterr().err.count("There is no tail.") == 1
