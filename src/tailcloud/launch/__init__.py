"""From a request to finished run folders: the one driver of a run, alone, in a fleet or under torchrun."""
