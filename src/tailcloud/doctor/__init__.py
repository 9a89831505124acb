"""``tailcloud doctor``: checks of an installation and a machine, on one page.

``check`` is one finding. ``installation`` and ``machine`` say what is here; ``training_check`` trains digits in every
executor and compares, ``compiled_check`` does so with torch.compile, ``network_check`` compares a pretrained network
with float64, ``cache_check`` and ``weights_check`` read files and compare their digests. ``page`` runs all of them and
writes the page.
"""
