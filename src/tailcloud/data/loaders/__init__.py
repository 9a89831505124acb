"""Where images are while a model trains: on the device (``resident``), or in their files (``stream``).

``face`` picks one of the two, which give the same batches. Files are read by processes (``decoders``, each of them a
``decoder``), asked for by row (``fetching``), ahead of time (``feeding``), with another image in the place of a broken
one (``faults``), or out of a ``cache`` that ``caching`` fills. A decoder imports this package, and must not import
PyTorch with it: nothing is imported here.
"""
