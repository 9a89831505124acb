"""Workers of a fleet as forks of a process that has imported everything: a new interpreter takes seconds each time."""

import os
from multiprocessing import get_context

PRELOADED = [
    *("torch._dynamo", "sklearn.datasets", "tailcloud.training.loop", "tailcloud.launch.execute"),
    *("tailcloud.reporting", "helpers.runs", "helpers.ranks"),
]


class WarmContext:
    """As much of a context of ``multiprocessing`` as workers need."""

    def __init__(self, _method):
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)
        self.Pipe = self.context.Pipe

    def Process(self, target, args):  # noqa: N802
        return self.context.Process(target=_live, args=(dict(os.environ), target, args))


def _live(environment, target, args):
    """In a fork, whose environment is that of the first one's parent."""
    os.environ.clear()
    os.environ.update(environment)
    target(*args)
