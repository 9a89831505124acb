"""What a run costs, estimated before it is started."""

from dataclasses import dataclass

from tailcloud.classifier import cost
from tailcloud.data import Dataset
from tailcloud.data.loaders.epoch_plan import batch_ends
from tailcloud.recipe import Recipe
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


def estimate(recipe: Recipe, dataset: Dataset) -> Estimate:
    """Counted from shapes, without allocating anything. Memory is that of weights, images and activations."""
    trained = architecture(recipe, dataset)
    model, finished = (cost(each, *dataset.shape[:2]) for each in (trained, trained.at_inference))
    parts = [part for part in (dataset.train, dataset.test, dataset.val) if part and not part.streamed]
    images = sum(part.pixels.nbytes for part in parts)
    batch, kept = (max(map(count, recipe.stages.values())) for count in (images_per_step, copies))
    micro_batch = -(-batch // recipe.engine.accumulate)
    memory = images + FLOAT_BYTES * (kept * model.parameters + 2 * micro_batch * model.activations)
    size = len(dataset.train)
    steps = {name: stage.epochs * len(batch_ends(size, stage.batch)) for name, stage in recipe.stages.items()}
    return Estimate(steps, finished.parameters, finished.flops, memory)
