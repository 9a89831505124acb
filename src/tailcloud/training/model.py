"""The model of a run, with its initial weights."""

from tailcloud.classifier import Architecture, Classifier, Cost, build_classifier, cost_of
from tailcloud.data import Dataset
from tailcloud.recipe import Recipe, head_kinds
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import PretrainedWeights, resolve_weights


def architecture(recipe: Recipe, dataset: Dataset, head: str | None = None) -> Architecture:
    """The model that a recipe trains on a data set, with the head of its last stage, or another head."""
    model, last = recipe.model, list(head_kinds(recipe).values())[-1]
    return Architecture(model.backbone, head or last, model.width, dataset.shape[2], dataset.classes)


def first_model(recipe: Recipe, dataset: Dataset) -> tuple[Classifier, PretrainedWeights | None]:
    """The model before its first stage, and its pretrained weights if the recipe names some; nothing is downloaded."""
    spec, model = recipe.model, build_classifier(architecture(recipe, dataset, recipe.model.head), recipe.seed)
    if not spec.pretrained:
        return model, None
    weights = resolve_weights(spec.backbone, spec.pretrained, recipe.root, sha256=spec.weights_sha256)
    return model, load_pretrained(model.backbone, weights, dataset.shape[2])


def cost_on(model: Classifier, dataset: Dataset) -> Cost:
    """Parameters and FLOPs of a model on the images of a data set."""
    height, width, channels = dataset.shape
    return cost_of(model, channels, height, width)
