"""Pretrained weights by name: what exists (``CATALOGUE``), whether it is here (``available``), and where it comes from.

A weights file is, in this order: a file that the user names, a file in an installed package, a file in the cache of
``huggingface_hub``, a download from the hub. Importing this room does not import PyTorch.

>>> from tailcloud.weights import CATALOGUE, available
>>> CATALOGUE["efficientnet_lite0"].pixels, CATALOGUE["efficientnet_lite0"].licence
(224, 'Apache-2.0')
>>> available("efficientnet_lite0")  # without a network
True
"""

from tailcloud.weights.catalogue import CATALOGUE, CatalogueEntry
from tailcloud.weights.resolve import available

__all__ = ["CATALOGUE", "CatalogueEntry", "available"]
