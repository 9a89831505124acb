"""Suggestions for ``data.group``: bursts, or groups that a column names, which training and test would share."""

import re
import shlex
from collections.abc import Iterator, Sequence

import numpy as np

from tailcloud.data.exif import read_captures
from tailcloud.data.inspection.findings import INFLATED, Vector, share_of_split, shared_with_training
from tailcloud.data.inspection.survey import Survey
from tailcloud.data.readers.burst_groups import BURST, find_bursts
from tailcloud.data.readers.csv_list import other_columns, read_list
from tailcloud.data.readers.groups import grouped
from tailcloud.files import expand_home

LEAST_SHARED = 3  # images of a split: fewer change its accuracy by little
LEAST_GROUPS = 5  # of a column: with fewer, whole groups make no sensible split
ABOUT_GROUPS = re.compile(  # in the name of a column whose images belong together
    r"(?<![a-z])(animal|burst|camera|case|deployment|event|group|individual|lesion|location|night|observation|patient|"
    r"person|plant|plot|recording|scene|seq|sequence|series|session|site|slide|specimen|station|subject|track|tree|"
    r"video)(s|_?id|_?no)?(?![a-z])",
    re.IGNORECASE,
)


def group_suggestions(survey: Survey) -> Iterator[str]:
    """A sentence for each kind of group that training and test would share, with the setting that keeps it together.

    Opens every file to read its EXIF block. Nothing is suggested if ``data.group`` is set.
    """
    if survey.files is None or survey.options.group is not None:
        return
    yield from burst_suggestion(survey)
    for column in group_columns(survey):
        yield from column_suggestion(survey, column)


def burst_suggestion(survey: Survey) -> Iterator[str]:
    """A sentence on bursts of photographs that are in two splits."""
    assert survey.files is not None
    paths = survey.files.paths
    first = find_bursts(read_captures([paths[row] for row in survey.file_rows()]))
    together = int(grouped(first).sum())
    images = f"{together:,} of {len(first):,} images are in bursts ({BURST})"
    yield from _shared(survey, first, images, "have another image of their burst in training", "burst", "exif")


def group_columns(survey: Survey) -> list[str]:
    """The columns of the list whose names say that they are about groups."""
    file = expand_home(survey.spec)
    if file.suffix.lower() not in {".csv", ".tsv"}:
        return []
    return [column for column in other_columns(file) if ABOUT_GROUPS.search(column)]


def column_suggestion(survey: Survey, column: str) -> Iterator[str]:
    """A sentence on groups of a column that are in two splits."""
    keys = read_list(expand_home(survey.spec), column).groups or ()
    first = _first_of_each([keys[row] for row in survey.file_rows()])
    groups = len(np.unique(first[grouped(first)]))
    if groups >= LEAST_GROUPS:
        has = f'The column "{column}" has {groups:,} groups of images'
        yield from _shared(survey, first, has, "share theirs with training", "group", column)


def _first_of_each(keys: Sequence[str]) -> Vector:
    """The first image with the key of each; one without a key is alone."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(key, row) if key else row for row, key in enumerate(keys)], np.int64)


def _shared(survey: Survey, first: Vector, what: str, how: str, one: str, group: str) -> Iterator[str]:
    setting = f"Keep each {one} in one split: --set {shlex.quote(f'data.group={group}')}."
    way_out = f"Move each {one} into one split." if survey.splits_named else setting
    for split, count in shared_with_training(survey, first).items():
        if count >= LEAST_SHARED:
            yield f"{what}, and {share_of_split(survey, split, count)} {how}: {INFLATED}. {way_out}"
