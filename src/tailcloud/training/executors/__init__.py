"""How the steps of an epoch are run: eagerly, as CUDA graphs, compiled, or in micro-batches."""
