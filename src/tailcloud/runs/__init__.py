"""Runs on disk: the run folder, its checkpoints, its result and its model, and who observes a run."""
