"""What a run costs, estimated before it is started."""

from dataclasses import dataclass

from tailcloud.classifier import Cost, cost
from tailcloud.data import Dataset
from tailcloud.data.loaders.epoch_plan import batch_ends
from tailcloud.recipe import Recipe, Stage
from tailcloud.training.model import architecture
from tailcloud.training.stages.cost import copies, images_per_step

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Estimate:
    """Steps of each stage, parameters and FLOPs of the finished model, and memory on the device in bytes."""

    steps: dict[str, int]
    parameters: int
    flops: int
    memory: int


def activations_per_step(stage: Stage, model: Cost, accumulate: int) -> int:
    """Floats of the activations of a step and of their gradients; of a frozen network, of a layer and the next one."""
    micro_batch = -(-images_per_step(stage) // accumulate)
    return 2 * micro_batch * (model.largest_activation if stage.trains_only_head else model.activations)


def estimate(recipe: Recipe, dataset: Dataset) -> Estimate:
    """Counted from shapes, without allocating anything. Memory is that of weights, images and activations."""
    trained = architecture(recipe, dataset)
    model, finished = (cost(each, *dataset.shape[:2]) for each in (trained, trained.at_inference))
    parts = [part for part in (dataset.train, dataset.test, dataset.val) if part and not part.streamed]
    images = sum(part.pixels.nbytes for part in parts)
    stages = recipe.stages.values()
    kept = max(map(copies, stages))
    activations = max(activations_per_step(stage, model, recipe.engine.accumulate) for stage in stages)
    memory = images + FLOAT_BYTES * (kept * model.parameters + activations)
    size = len(dataset.train)
    steps = {name: stage.epochs * len(batch_ends(size, stage.batch)) for name, stage in recipe.stages.items()}
    return Estimate(steps, finished.parameters, finished.flops, memory)
