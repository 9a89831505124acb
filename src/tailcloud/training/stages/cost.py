"""The cost of a stage: images per step, passes of the network, FLOPs, and numbers kept per weight."""

from tailcloud.objectives import OBJECTIVES
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.recipe import Recipe, Stage
from tailcloud.recipe.schema import ADAPTERS

FORWARD, BACKWARD = 1, 2  # a backward pass costs two forward passes: for the inputs of layers, and for their weights
THROUGH = 1  # gradients pass the frozen layers between adapters


def images_per_step(stage: Stage) -> int:
    """The images of a step that go through the network: a batch, its further views, a second sampler's batch."""
    objective = OBJECTIVES[stage.objective.name]
    streams = 1 + getattr(objective, "views", 0) + getattr(objective, "second", False)
    return stage.batch * streams


def gradients_per_step(stage: Stage) -> int:
    """How often a step computes the gradient: SAM needs a second one."""
    return 2 if stage.sam else 1


def passes(stage: Stage) -> int:
    """The cost of an image in forward passes.

    A stage that trains only the head needs no backward pass; one on features needs none at all.
    """
    if stage.views:
        return 0
    if {"all", "backbone"} & set(stage.parts):
        return gradients_per_step(stage) * (FORWARD + BACKWARD)
    return gradients_per_step(stage) * (FORWARD + (THROUGH if ADAPTERS in stage.parts else 0))


def copies(stage: Stage) -> int:
    """Numbers kept per weight: the weight, its gradient, the optimiser's state, an average, and the copy of SAM."""
    return 2 + len(OPTIMIZERS[stage.optimizer.name].buffer_names) + (stage.ema > 0) + (stage.sam > 0)


def flops_per_step(recipe: Recipe, flops: int) -> int:
    """FLOPs of the largest training step if all parameters are trained; ``flops``: one image, forward."""
    images = max(gradients_per_step(stage) * images_per_step(stage) for stage in recipe.stages.values())
    return (FORWARD + BACKWARD) * images * flops


def total_flops(recipe: Recipe, images: int, flops: int) -> int:
    """FLOPs of all training steps on so many images; ``flops``: one image, forward."""
    stages = recipe.stages.values()
    shown = sum(passes(stage) * stage.epochs * images_per_step(stage) / stage.batch for stage in stages)
    return round(shown * images * flops)
