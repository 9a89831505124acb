"""Runs on disk: the run folder, its log, checkpoints, result and model; and observers of a run."""
