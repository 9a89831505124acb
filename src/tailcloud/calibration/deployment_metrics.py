"""What a trained model is worth in use: how true its confidences are, and how it fares where classes come otherwise.

One pass over the images gives all of it; the outputs are read in several ways at once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.priors import Prior, accuracy_under, adjustment, mixes_of, name_of
from tailcloud.calibration.temperature import calibration_by_group
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import gathered, judge_in_ways
from tailcloud.evaluation.metrics import Predictions, calibration, summarise


@dataclass(frozen=True)
class Calibrated:
    """scale · outputs / temperature are calibrated logits, which assume the mix of classes ``prior``.

    ``fitted_on`` says on which part of the data the temperature was fitted, None where nothing could be held out, and
    ``images`` on how many of its images, None where that is not known any more.
    """

    scale: float
    temperature: float
    prior: Prior
    fitted_on: str | None = None
    images: int | None = 0

    @property
    def factor(self) -> float:
        """By which outputs become calibrated logits."""
        return self.scale / self.temperature


def measure_deployed(
    network: Callable[[Tensor], Tensor], batches: Iterable[Batch], reading: Calibrated, counts: Sequence[int]
) -> dict[str, Any]:
    """``calibrated`` and ``priors`` of a result, from test images; percent, None where there is nothing to measure."""
    mixes = mixes_of(counts)
    shifts = {name: torch.from_numpy(adjustment(mix, reading.prior)) for name, mix in mixes.items()}
    ways = [(reading.scale, None), (reading.factor, None), *((reading.factor, shift) for shift in shifts.values())]
    judged = judge_in_ways(network, batches, ways)
    before, after, *adjusted = [gathered(one, len(counts)) for one in judged]
    accuracies = {
        name: {"plain": _accuracy(after, counts, mix), "adjusted": _accuracy(said, counts, mix)}
        for said, (name, mix) in zip(adjusted, mixes.items(), strict=True)
    }
    return {
        "calibrated": _calibrated(before, after, reading, list(counts)),
        "priors": {"assumed": name_of(reading.prior, counts), **accuracies},
    }


def _accuracy(predictions: Predictions, counts: Sequence[int], mix: Prior) -> float | None:
    return accuracy_under(summarise(predictions, counts)["per_class"], mix)


def _calibrated(before: Predictions, after: Predictions, reading: Calibrated, counts: list[int]) -> dict[str, Any]:
    """Expected calibration error and reliability before and after, of all images and of each shot group."""
    groups = {"before": calibration_by_group(before, counts), "after": calibration_by_group(after, counts)}
    return {
        "temperature": reading.temperature,
        "fitted_on": reading.fitted_on,
        "images": reading.images,
        **_whole(after),
        "before": _whole(before),
        "groups": {name: {when: groups[when][name] for when in groups} for name in groups["before"]},
    }


def _whole(predictions: Predictions) -> dict[str, Any]:
    return calibration(predictions.confidence, np.equal(predictions.predicted, predictions.target))
