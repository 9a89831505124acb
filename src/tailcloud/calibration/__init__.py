"""Calibration and priors: from held-out images to temperature, bias of logits, implied prior, and worth in use."""
