"""Where images are while a model trains, and how batches are made of them.

``images`` says what a run needs of a split, ``base`` what a loader is; ``placement`` chooses where images go.

* All images on the device: ``resident``.
* Images in their files: ``stream``, with ``prefetch`` (reads ahead), ``file_reader`` (images by row),
  ``decoder_pool`` and ``decoder_process`` (processes that decode files), ``substitutes`` (for unreadable files),
  ``cache`` (decoded images in one file).
* Features of images instead of images, on the device: ``features``.
* For all: ``batch`` (with the micro-batches of one rank), ``epoch_plan`` (the draws of an epoch), ``planned_loader``
  (sampled, augmented, mixed batches), ``multi_stream`` (several loaders as one).

To add a place for images, implement ``Images`` in a file here and choose it in ``placement``.

A decoder process imports this package and must not import PyTorch with it, so nothing is imported here.
"""
