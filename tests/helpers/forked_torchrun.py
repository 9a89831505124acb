"""torchrun whose processes are forks of one that has imported everything: ``forked_torchrun.py RANKS WORDS…``.

The agent is torchrun's own: it starts the processes, passes signals on, and ends all of them when one dies.
"""

import sys

import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import tailcloud.cli.progress
import tailcloud.launch.run_plan
import tailcloud.reporting
import tailcloud.training.loop  # noqa: F401
from tailcloud.cli import main


def rank_main(words):
    sys.argv = ["tailcloud", *words]
    main()


def torchrun(ranks, words):
    """``torchrun --standalone --nproc-per-node RANKS -m tailcloud WORDS…``."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id="test",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, rank_main)(words)


if __name__ == "__main__":
    torchrun(int(sys.argv[1]), sys.argv[2:])
