"""From a training request to finished run folders: one run alone, several at the same time, or one under torchrun."""
