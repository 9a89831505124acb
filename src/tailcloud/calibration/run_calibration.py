"""At the end of a run: the temperature of the weights that are kept, from images that were held out."""

from tailcloud.calibration.deployment_metrics import Calibrated
from tailcloud.calibration.held_out import held_out
from tailcloud.calibration.implied_prior import assumed_prior
from tailcloud.calibration.temperature import fit_temperature
from tailcloud.training.session import Session

ABSENT = 0.5  # images of a class that has none among the held-out ones


def calibrate(session: Session) -> Calibrated:
    """How the outputs of the trained model are to be read.

    Without a validation part of at least 20 images nothing is fitted: the temperature is 1 and ``fitted_on`` None.
    """
    counts = session.dataset.profile.counts.tolist()
    scale = session.loss(list(session.recipe.stages.values())[-1]).scale
    prior = assumed_prior(session.recipe, counts)
    found = held_out(session.model, session.images.val, session.transform, prior, absent=ABSENT)
    if found is None:
        return Calibrated(scale, 1.0, prior)
    temperature = fit_temperature(scale * found.outputs, found.target, found.shift)
    return Calibrated(scale, temperature, prior, "val", len(found.target))
