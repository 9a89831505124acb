"""Features once: a stage that trains only the head takes features of a frozen backbone instead of images.

``views`` numbers the views of an image, ``embedder`` makes features of them (with ``batch_norm_folding``),
``feature_cache`` keeps them on disk, ``run_features`` has those of a run's splits, and ``head_network`` is the network
of such a stage. Batches are made in ``data/loaders/features.py``.
"""
