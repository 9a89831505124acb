"""Training: the loop, its steps, checkpoints and run folders. All that touches a device or a file of a run."""
