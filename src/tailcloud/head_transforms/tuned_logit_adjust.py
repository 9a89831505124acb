"""Tuned logit adjustment: the bias of a classifier towards frequent or rare classes, removed with held-out images."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.calibration.held_out import MIN_HELD_OUT_IMAGES, HeldOutOutputs
from tailcloud.calibration.logit_bias import fit_temperature_and_bias, log_likelihood_gain
from tailcloud.head_transforms.base import (
    SHIFTED_HEADS,
    HeadTransform,
    TrainedModelView,
    look_up_head,
    shift_outputs,
)
from tailcloud.heads import Head
from tailcloud.losses.logit_adjustment import log_priors

SIGNIFICANT_GAIN = 1.92  # nats: half of the 95 % quantile of χ² with one degree of freedom


class TunedLogitAdjust(HeadTransform):
    """Adds the multiple of log n_j to the logits that makes held-out images most likely:

        z_j + T·τ·log n_j,   (1 / T, τ) minimise −Σ log p_y,   p = softmax(z / T + τ·log n_j + log π_j − log π_a,j)

    z are the logits, n_j the training images of class j (minus the mean of log n_j), π is the class prior of the
    held-out images (p_j = 0 for a class without one), and π_a the prior that the stages before imply; the adjusted
    outputs have that prior. This assumes that the bias is proportional to log n_j, and that the held-out images of a
    class are like its other images. T is not kept: it is fitted again at the end of the run.

    Outputs stay unchanged if fewer than 20 images are held out, or if the bias is not significant: a gain in
    log-likelihood of at most 1.92 nats over τ = 0, by a likelihood-ratio test at the 5 % level.

    Args:
        counts: training images per class; an absent class counts as one image.
    """

    needs_held_out: ClassVar[bool] = True

    def head_after(self, before: str) -> str:
        """A linear head stays linear; a cosine head becomes a scaled one."""
        return look_up_head(before, SHIFTED_HEADS, "tuned-logit-adjust")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:
        """The trained head with shifted outputs."""
        log_counts = log_priors(self.counts)
        log_counts = log_counts - log_counts.mean()
        held_out = trained.held_out()
        coefficient = 0.0 if held_out is None else self.coefficient(held_out, log_counts, trained.scale)
        trained.add_note(describe(held_out, coefficient))
        shift_outputs(old, new, coefficient * log_counts / trained.scale)

    def coefficient(self, held_out: HeldOutOutputs, log_counts: NDArray[np.float64], scale: float) -> float:
        """T·τ, the factor of log n_j in the logits; 0 if it is not significant."""
        data = scale * held_out.outputs, held_out.target, log_counts, held_out.shift
        temperature, tau = fit_temperature_and_bias(*data)
        return temperature * tau if log_likelihood_gain(*data, temperature, tau) > SIGNIFICANT_GAIN else 0.0


def describe(held_out: HeldOutOutputs | None, coefficient: float) -> str:
    """What was done, as a sentence for the user."""
    if held_out is None:
        return f"Fewer than {MIN_HELD_OUT_IMAGES} held-out images; logits unchanged."
    images = f"{len(held_out.target):,} held-out images"
    if not coefficient:
        return f"No significant bias on {images}; logits unchanged."
    favoured = "frequent" if coefficient > 0 else "rare"
    return f"Added {coefficient:+.2f}·log n_j to the logits, in favour of {favoured} classes; fitted on {images}."
