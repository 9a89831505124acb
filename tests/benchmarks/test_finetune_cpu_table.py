"""The table of what each optimisation of fine-tuning on a CPU is worth."""

import finetune_cpu
import finetune_cpu_table

MACHINE = {"processor": "a processor", "torch": "2.13"}
ROWS = [
    {"row": "everything", "seconds": {"now": 0.5, "memory": 0.75}},
    {"row": "the last layers", "seconds": {"now": 0.4, "memory": 0.5, "layers": 1.0}},
]
RECORD = {"rows": ROWS, "batch": 64, "repeats": 3, "cores": 2, "machine": MACHINE, "commit": "abc"}


def test_ways_are_compared_with_the_code_as_it_is():
    text = "\n".join(finetune_cpu_table.parts(RECORD))
    assert "| what is trained | seconds a step | memory | layers |" in text
    assert "| everything | 0.50 | × 1.50 | – |" in text
    assert "| the last layers | 0.40 | × 1.25 | × 2.50 |" in text
    assert (
        "- 64 images a step, medians of 3 measurements in turn; a processor, 2 cores, torch 2.13, commit `abc`" in text
    )


def test_every_way_trains_the_same():
    """Taken away or not, an optimisation changes no more than rounding; so the program measures the same steps."""
    assert all(finetune_cpu.step_seconds("last", 32, *way) > 0 for way in finetune_cpu.WAYS.values())
