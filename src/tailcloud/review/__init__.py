"""Review of labels: images whose label is probably wrong, near-duplicates, and a page on which a person decides.

- ``review_images``: all images of a run, with their files, labels and splits.
- ``cross_validation``: predictions for every image by a head that was not trained on it.
- ``confident_learning``: which of these predictions contradict the label.
- ``review_items``: what a person looks at, in which order.
- ``decisions``: what the person decided, saved at once, and the list of images that follows.
- ``server``: the page, on this machine only.
"""
