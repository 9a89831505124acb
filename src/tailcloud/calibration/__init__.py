"""Calibration and priors: probabilities that can be trusted, for any mix of classes.

Needs no recipe:

- ``priors``: priors (mixes of classes), and what another prior adds to the logits.
- ``prior_file``: the prior that a user asks for: ``uniform``, ``train`` or a file.
- ``held_out``: the outputs of a model for held-out images.
- ``temperature``: temperature scaling, fitted on them.
- ``logit_bias``: temperature and a bias along log n_j, fitted on them together.
- ``deployment_metrics``: calibration error and accuracy under other priors, on the test part.

Needs a recipe:

- ``run_calibration``: the calibration of a finished run, the prior that its outputs imply, and which stages need
  held-out images.
"""
