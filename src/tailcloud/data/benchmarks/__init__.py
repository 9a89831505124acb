"""Data sets that have a name: ``SOURCES`` in ``tailcloud.data`` says which function of this room opens which.

``digits`` comes with scikit-learn. ``cifar`` reads what ``download`` brought (``cifar_files`` has its checksums,
``pickles`` reads without running anything). ``published`` opens the large benchmarks from their lists: ``editions``
says what was published, ``places`` where people keep the images.
"""
