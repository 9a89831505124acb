"""Several processes that share a run, for tests: they are forked from one that has imported everything, and meet."""

import os
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from helpers.warm_workers import PRELOADED
from tailcloud.training.distributed.world import process_group, world_from_environment


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def in_ranks(size, work, *details):
    """What ``work(world, *details)`` gives in each of so many processes, by rank."""
    context, port = get_context("forkserver"), free_port()
    context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(size, context) as pool:
        return list(pool.map(_life, range(size), [size] * size, [port] * size, [work] * size, [details] * size))


def _life(rank, size, port, work, details):
    torch.set_num_threads(1)
    place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    world = world_from_environment()
    with process_group(world, torch.device("cpu")):
        return work(world, *details)
