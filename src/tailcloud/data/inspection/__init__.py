"""Checks of a data set before training: ``survey("photos")``.

- ``survey``: the record of a data set, image by image, including what training would refuse.
- ``duplicates``: images that are in a data set twice, or nearly so.
- ``findings``: sentences about a survey: leaks, sizes, classes too small to measure.
- ``group_suggestions``: bursts and columns that should not be in training and test at once.
- ``samples``: a few images of every class.
- ``verify``: whether every file exists and can be decoded.
"""

from tailcloud.data.inspection.survey import survey

__all__ = ["survey"]
