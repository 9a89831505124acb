"""The lean of a trained classifier towards frequent or rare classes, taken off as held-out images have it."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.calibration.logit_bias import fit_tilt, gained
from tailcloud.calibration.temperature import FEWEST
from tailcloud.head_transforms.base import HeadTransform, HeldOut, Trained
from tailcloud.head_transforms.head_kinds import SHIFTED, made_of
from tailcloud.head_transforms.output_shift import shift_outputs
from tailcloud.heads import Head
from tailcloud.losses.logit_adjustment import log_priors

ENOUGH = 1.92  # nats: half of the 95 % point of χ², one degree; one in twenty that do not lean gains more, or fewer


class TunedLogitAdjust(HeadTransform):
    """Logits are moved by so much of the log of the class counts as makes held-out images most likely:

        z_j + T·τ·log n_j,   (1 / T, τ) minimise −Σ log p_y,   p = softmax(z / T + τ·log n_j + log π_j − log π_a,j)

    z are the logits, n_j the training images of class j (the mean of log n_j is taken off), π is the mix of classes of
    the held-out images (a class that none of them is of has p_j = 0), and π_a the one that the stages before are meant
    to leave: it is what the outputs truly assume afterwards. This holds as far as the lean of the classifier goes with
    log n_j, and as the held-out images of a class look like all others of it. T is not kept: the end of a run fits it
    again. Outputs stay as they are where fewer than 20 images are held out, or where these could as well come from a
    classifier that does not lean: if they all together are not 1.92 nats more likely than with τ = 0, by the
    likelihood-ratio test on a level of 5 %.

    Args:
        counts: training images per class; an absent class counts as one image.
    """

    looks_at_held_out: ClassVar[bool] = True

    def kind(self, before: str) -> str:
        """Linear stays linear; a cosine head is scaled."""
        return made_of(before, SHIFTED, "tuned-logit-adjust")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:
        """The trained head and a shift of its outputs."""
        frequent = log_priors(self.counts)
        frequent = frequent - frequent.mean()
        found = trained.held_out()
        lean = 0.0 if found is None else self.lean(found, frequent, trained.scale)
        trained.say(told(found, lean))
        shift_outputs(old, new, lean * frequent / trained.scale)

    def lean(self, found: HeldOut, frequent: NDArray[np.float64], scale: float) -> float:
        """T·τ: how many times log n_j the logits lack; 0 where that cannot be told from chance."""
        images = scale * found.outputs, found.target, frequent, found.shift
        temperature, tau = fit_tilt(*images)
        return temperature * tau if gained(*images, temperature, tau) > ENOUGH else 0.0


def told(found: HeldOut | None, lean: float) -> str:
    """What was done, in a sentence."""
    if found is None:
        return f'"tuned-logit-adjust" leaves the head as it is: fewer than {FEWEST} images are held out.'
    images = f"{len(found.target):,} held-out images"
    if not lean:
        return f"the logits stay as they are: by {images} they lean no more than by chance."
    favoured = "frequent" if lean > 0 else "rare"
    return f"{lean:+.2f}·log n_j is added to the logits, in favour of {favoured} classes, as {images} have it."
