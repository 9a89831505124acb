"""Data sets that are opened by their name; ``SOURCES`` in ``tailcloud.data`` maps names to functions.

- ``digits``: digits-lt, from scikit-learn.
- ``cifar``: CIFAR-10 and CIFAR-100, whole and long-tailed.
- ``cifar_files``: the published files of CIFAR, their checksums and fingerprints.
- ``download``: downloads and unpacks CIFAR.
- ``safe_pickle``: reads the pickles of CIFAR without running them.
- ``file_lists``: ImageNet-LT, Places-LT and iNaturalist 2018, from their published lists, and where their images
  are.
- ``editions``: what was published of these three.
"""
