"""What an epoch draws, and what happens to whole batches: nothing here knows where images are kept.

``plan`` is what an epoch shows, ``planned`` what every loader has, ``joined`` several loaders as one, and ``pieces``
the part of a ``batch`` that one process computes. ``views`` (with ``augment``, ``resized_crop`` and ``colours``),
``mixing`` and ``transform`` are device code on whole batches.
"""
