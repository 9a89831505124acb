"""The model of a run, with its initial weights."""

from dataclasses import replace

from torch import nn

from tailcloud.classifier import Architecture, Classifier, Cost, add_adapters, build_classifier, cost_of
from tailcloud.data import Dataset
from tailcloud.heads import LinearHead
from tailcloud.recipe import Recipe, head_kinds
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import PretrainedWeights, resolve_weights


def architecture(recipe: Recipe, dataset: Dataset, head: str | None = None) -> Architecture:
    """The model that a recipe trains on a data set, with the head of its last stage, or another head."""
    model, last = recipe.model, list(head_kinds(recipe).values())[-1]
    return Architecture(
        backbone=model.backbone,
        head=head or last,
        width=model.width,
        channels=dataset.shape[2],
        classes=dataset.classes,
        adapter=model.adapter,
        adapter_size=model.adapter_size,
    )


def first_model(recipe: Recipe, dataset: Dataset) -> tuple[Classifier, PretrainedWeights | None]:
    """The model before its first stage, and its pretrained weights if the recipe names some; nothing is downloaded."""
    spec, whole = recipe.model, architecture(recipe, dataset, recipe.model.head)
    model, pretrained = build_classifier(whole.plain, recipe.seed), None
    if spec.pretrained:  # of the plain network, so adapters come after them
        weights = resolve_weights(spec.backbone, spec.pretrained, recipe.root, sha256=spec.weights_sha256)
        pretrained = load_pretrained(model.backbone, weights, dataset.shape[2])
        start_from_zero(model.head)
    add_adapters(model, whole, recipe.seed)
    return model, pretrained


def start_from_zero(head: nn.Module) -> None:
    """A linear head on pretrained features starts from zeros; any other head stays as it is.

    The gradient of the features is a sum of class weights. Random weights turn good features into random directions
    before the head has learned anything; from zeros the head learns first. (Kumar et al., ICLR 2022: how fine-tuning
    distorts pretrained features.)
    """
    if type(head) is LinearHead:
        for parameter in head.parameters():
            nn.init.zeros_(parameter)


def normalised_for(pretrained: PretrainedWeights | None, dataset: Dataset) -> Dataset:
    """The data set, normalised as the images were that its model was pretrained on, if it was."""
    return replace(dataset, mean=pretrained.mean, std=pretrained.std) if pretrained else dataset


def cost_on(model: Classifier, dataset: Dataset) -> Cost:
    """Parameters and FLOPs of a model on the images of a data set."""
    height, width, channels = dataset.shape
    return cost_of(model, channels, height, width)
