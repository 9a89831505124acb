"""The tables of fine-tuning: steps, and whole commands once there are any."""

import finetune_speed
import finetune_speed_table

MACHINE = {"gpu": "a GPU", "processor": "a processor", "cores": 16, "torch": "2.11"}
ROW = {"size": 128, "batch": 128, "trivial_augment": True, "eager": 5302.4, "graphed": 14721.5, "ratio": 2.776}
ROW |= {"machine": MACHINE, "commit": "abc"}
RECORD = {"images_per_second": [ROW]}


def test_steps_have_a_ratio_and_an_origin():
    text = "\n".join(finetune_speed_table.parts(RECORD))
    assert "| 128, 128, crops, flips, colours, TrivialAugment | 5,302 | 14,722 | × 2.78 |" in text
    assert "| images a second: pixels, batch, augmentation | eager | graphed | graphed against eager |" in text
    assert "\nMeasured on a GPU, 16 cores, torch 2.11, commit `abc`." in text
    assert "whole command" not in text


def test_a_row_replaces_that_of_the_same_steps_and_keeps_its_origin():
    """Another size that was measured before stays, with its own commit, and says what it lacks."""
    large = {"size": 224, "batch": 64, "trivial_augment": True, "eager": 2617.6, "machine": MACHINE, "commit": "old"}
    rows = finetune_speed.merged(finetune_speed.merged([ROW], large), {**ROW, "eager": 6161.0, "commit": "new"})
    text = "\n".join(finetune_speed_table.parts({"images_per_second": rows}))
    assert len(rows) == 2
    assert "TrivialAugment | 6,161 | 14,722 | × 2.78 |" in text
    assert "| 224, 64, crops, flips, colours, TrivialAugment | 2,618 | n/a | n/a |" in text
    assert "- 128 pixels: measured on a GPU, 16 cores, torch 2.11, commit `new`." in text
    assert "- 224 pixels: measured on a GPU, 16 cores, torch 2.11, commit `old`." in text


def test_whole_commands_have_their_own_origin():
    asked = {"epochs": 12, "images": 24_265, "size": 128, "batch": 128, "machine": MACHINE, "commit": "def"}
    found = {"plain": {"wall": 82.1, "memory": None}, "tailcloud": {"wall": 45.0, "memory": 8 * 10**9}}
    text = "\n".join(finetune_speed_table.parts({**RECORD, "whole_commands": {**asked, **found}}))
    assert "12 epochs of 24,265 images at 128 pixels, batch 128:" in text
    assert "| plain script, eager | 1\u00a0min 22\u00a0s | n/a |" in text
    assert "| `tailcloud train` | 45.0\u00a0s | 8.0 |" in text
    assert "commit `def`." in text
