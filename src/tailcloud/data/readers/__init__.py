"""Images of one's own, opened by their path.

``opening`` decides what a path is. ``folder`` and ``lists`` (both make a ``listing``) and ``arrays`` (with ``npz``) say
what there is, and where it is very much, ``long_lists`` (with ``plain_list`` and ``repeats``). ``arranging`` makes
classes and parts of it, and ``sizing`` picks a size. Then ``assembling`` puts a data set together in memory, or
``filing`` leaves the images in their files.
"""
