"""What a stage takes, counted in images and passes of its network."""

from tailcloud.objectives import OBJECTIVES
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.recipe import Recipe, Stage

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
    return 2 + len(OPTIMIZERS[stage.optimizer.name].buffer_names) + (stage.ema > 0)


def flops_a_step(recipe: Recipe, flops: int) -> int:
    """FLOPs of the largest training step of a recipe, as if it trained everything, given those of one image forward."""
    return 3 * max(map(images_a_step, recipe.stages.values())) * flops


def flops_in_all(recipe: Recipe, images: int, flops: int) -> int:
    """FLOPs of all training steps on so many images, given those of one image forward."""
    stages = recipe.stages.values()
    shown = sum(passes(stage) * stage.epochs * images_a_step(stage) / stage.batch for stage in stages)
    return round(shown * images * flops)
