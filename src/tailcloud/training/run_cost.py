"""What a run will take, before it is started."""

from dataclasses import dataclass

from tailcloud.classifier import cost
from tailcloud.data import Dataset
from tailcloud.data.loaders.epoch_plan import batch_ends
from tailcloud.data.loaders.placement import is_streamed
from tailcloud.recipe import Recipe
from tailcloud.training.model import architecture
from tailcloud.training.stages.cost import copies, images_a_step

FLOAT = 4


@dataclass(frozen=True)
class Estimate:
    """Steps of each stage, and the size of the model and of everything on the device."""

    steps: dict[str, int]
    parameters: int
    flops: int
    memory: int


def estimate(recipe: Recipe, dataset: Dataset) -> Estimate:
    """Counted from shapes: nothing is allocated. Memory is weights, images and kept activations, in bytes."""
    price = cost(architecture(recipe, dataset), *dataset.shape[:2])
    parts = [part for part in (dataset.train, dataset.test, dataset.val) if part and not is_streamed(part)]
    images = sum(part.pixels.nbytes for part in parts)
    batch, kept = (max(map(count, recipe.stages.values())) for count in (images_a_step, copies))
    piece = -(-batch // recipe.engine.accumulate)
    memory = images + FLOAT * (kept * price.parameters + 2 * piece * price.activations)
    size = len(dataset.train)
    steps = {name: stage.epochs * len(batch_ends(size, stage.batch)) for name, stage in recipe.stages.items()}
    return Estimate(steps, price.parameters, price.flops, memory)
