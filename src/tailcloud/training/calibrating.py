"""At the end of a run: the temperature of the weights that are kept, from images that were held out."""

import numpy as np
import torch

from tailcloud.data.batch import Batch
from tailcloud.data.planned import Images
from tailcloud.evaluation.calibration import fit_temperature
from tailcloud.evaluation.deployed import Calibrated
from tailcloud.evaluation.priors import Prior, adjustment, normalised
from tailcloud.training.assumed import assumed_prior
from tailcloud.training.session import Session

FEWEST = 20  # images; from fewer a temperature would be chance
MOST_LOGITS = 1 << 22  # one number is fitted: a few thousand images tell it


def calibrate(session: Session) -> Calibrated:
    """How the outputs of the trained model are to be read.

    Without a validation part of at least 20 images nothing is fitted: the temperature is 1 and ``fitted_on`` None.
    """
    counts = session.dataset.profile.counts.tolist()
    scale = session.loss(list(session.recipe.stages.values())[-1]).scale
    prior = assumed_prior(session.recipe, counts)
    if session.val is None or len(session.val.labels) < FEWEST:
        return Calibrated(scale, 1.0, prior)
    temperature, images = _fitted(session, session.val, scale, adjustment(_mix(session.val, len(counts)), prior))
    return Calibrated(scale, temperature, prior, "val", images)


def _mix(images: Images, classes: int) -> Prior:
    """How often the classes are among the held-out images; one that is not counts as half an image."""
    found = images.labels.cpu().numpy()
    return normalised(np.maximum(np.bincount(found, minlength=classes), 0.5))


@torch.inference_mode()
def _fitted(session: Session, images: Images, scale: float, shift: Prior) -> tuple[float, int]:
    """The temperature, and from how many images: all of them, or as many as fit, evenly spaced over the part.

    Computed as the model will be when it is used: by PyTorch's own kernels.
    """
    session.model.eval()
    batches = [_few(batch, session.dataset.classes, len(images.labels)) for batch in images.in_order(session.transform)]
    outputs = torch.cat([session.model(batch.images).float() for batch in batches]).cpu().double().numpy()
    target = torch.cat([batch.target for batch in batches]).cpu().numpy()
    return fit_temperature(scale * outputs, np.asarray(target), shift), len(target)


def _few(batch: Batch, classes: int, images: int) -> Batch:
    step = max(1, -(-images * classes // MOST_LOGITS))
    return Batch(batch.images[::step], batch.target[::step])
