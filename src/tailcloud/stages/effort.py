"""What a stage takes, counted in images and passes of its network."""

from tailcloud.objectives import OBJECTIVES
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.recipe import Stage

FORWARD, BACKWARD = 1, 2  # passes: a backward one costs two forward ones


def images_a_step(stage: Stage) -> int:
    """The images that go through the network in a step: a batch, its second views, and one of a second stream."""
    objective = OBJECTIVES[stage.objective.name]
    streams = 1 + getattr(objective, "views", False) + getattr(objective, "second", False)
    return stage.batch * streams


def passes(stage: Stage) -> int:
    """The forward passes that an image is worth; where no more than parts are trained, the rest goes forward only."""
    return FORWARD + (BACKWARD if {"all", "backbone"} & set(stage.parts) else 0)


def copies(stage: Stage) -> int:
    """How often a stage keeps each weight: itself, its gradient, what the optimiser remembers, an average."""
    return 2 + len(OPTIMIZERS[stage.optimizer.name].memories) + (stage.ema > 0)
