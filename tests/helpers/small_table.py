"""A table on data that is built in."""

from tailcloud.bench import PaperTable
from tailcloud.runs.result import parse_result


def table(**changes):
    rows = [
        {"label": "One", "method": "ce", "paper": [1.0, "-"], "other": ["-", 2.0], "source": "somebody"},
        {"label": "Two", "method": "gcl"},
        {"label": "Two, again", "method": "gcl", "variant": "cben", "set": ["stage2.sampler=cben"]},
    ]
    return PaperTable.model_validate(
        {"name": "t", "title": "T", "about": "", "columns": ["digits-lt", "digits-lt:20"], "rows": rows, **changes}
    )


def measured(seed, top1, *, spec="digits-lt", recipe=None, **changes):
    """The result of a run, as far as a table looks at it."""
    content = {
        "method": "ce",
        "top1": {"last": top1, "best": top1 + 1, "best_on": "test"},
        "many": 90.0,
        "medium": 80.0,
        "few": 70.0,
        "ece": 3.0,
        "dataset": {"spec": spec, "fingerprint": "0123456789abcdef", "counts": [200, 50, 5]},
        "protocol": {"seed": seed},
        "model": {"parameters": 464144, "flops": 69_800_000},
        "seconds": 30.0,
        "recipe": recipe,
        **changes,
    }
    return parse_result(content)
