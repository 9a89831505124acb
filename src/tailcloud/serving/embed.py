"""Embeddings (penultimate features) of a run's training and test images."""

from pathlib import Path

import torch

from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.placement import automatic_workers, place_images, resized_like
from tailcloud.evaluation.embeddings import Embedding, embed
from tailcloud.serving.evaluate import check_fits
from tailcloud.serving.load import load


def embed_run(run: Path, dataset: Dataset, device: torch.device) -> dict[str, Embedding]:
    """The embeddings of all "train" and "test" images, without augmentation."""
    model = load(run)
    check_fits(run, model, dataset)
    classifier, transform = model.classifier.to(device), Normalise(model.transform.mean, model.transform.std, device)
    parts = {"train": resized_like(dataset.train, dataset.test), "test": dataset.test}
    decoders = Decoders(automatic_workers())
    return {
        name: embed(classifier, place_images(part, device, decoders).in_order(transform))
        for name, part in parts.items()
    }
