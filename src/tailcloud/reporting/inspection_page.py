"""The page of ``tailcloud inspect``: what is in a data set, what is wrong with it, and what training would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcloud.data.inspection.duplicates import ALIKE, ALIKE_IN_GREY, DISTANCE, Duplicates
from tailcloud.data.inspection.findings import (
    SPLIT_TITLES,
    DuplicatePair,
    duplicate_sentences,
    leaks,
    listed_pairs,
    size_facts,
    small_class_sentences,
)
from tailcloud.data.inspection.survey import Survey
from tailcloud.formatting import counted
from tailcloud.profile import Profile
from tailcloud.reporting import report_path, write_page
from tailcloud.reporting.figures.class_plots import plot_counts
from tailcloud.reporting.image_uri import image_uri
from tailcloud.reporting.render import render
from tailcloud.runs.result import Result, parse_result

PAIRS_WITH_IMAGES, PAIRS_LISTED = 12, 500
BROKEN_LISTED = 500
MAX_SIDE = 64  # pixels of an image on the page
HOW_FOUND = (
    f"Nearly the same: difference hashes of 64 bits that differ in at most {DISTANCE} bits, and thumbnails that "
    f"correlate by {ALIKE} or more ({ALIKE_IN_GREY} if all images are grey). This finds copies that were saved again, "
    "scaled or made a little brighter. It does not find mirrored, rotated, squashed or cropped copies, nor other "
    "photographs of the same thing. Images that differ only in small details are paired too."
)


@dataclass(frozen=True)
class InspectionPlan:
    """What training would do: the command, the reasons, and the recipe as TOML."""

    command: str
    reasons: Sequence[str]
    recipe: str


@dataclass(frozen=True)
class ShownPair:
    """A pair as the page shows it: two names, splits and classes, and perhaps two images as data URIs."""

    pair: DuplicatePair
    names: tuple[str, str]
    splits: tuple[str, str]
    classes: tuple[str, str]
    images: tuple[str, str] | None = None


def write_inspection(path: Path, survey: Survey, found: Duplicates, plan: InspectionPlan | None) -> Path:
    """Write the page; it replaces a page of tailcloud, but no other file."""
    return write_page(inspection_path(path), inspection_page(survey, found, plan))


def inspection_path(path: Path) -> Path:
    """The path of the page; a file that is not a page of tailcloud is refused."""
    return report_path([path.parent], path, "inspection.html", option="--html")


def inspection_page(survey: Survey, found: Duplicates, plan: InspectionPlan | None) -> str:
    """The page about a data set."""
    counts = _counted(survey)
    pairs = listed_pairs(survey, found)
    profile = Profile(np.array(counts.dataset.counts), survey.class_names)
    classes = counted(len(survey.class_names), "class", "classes")
    return render(
        "inspection.html.j2",
        title=f"{survey.spec}: {classes}",
        headline=f"{survey.spec}: {counted(len(survey.labels), 'image')} of {classes}, {profile.ratio:,.3g} times as "
        "many in the largest as in the smallest",
        survey=survey,
        counts=counts,
        by_split=survey.counts(),
        split_titles=SPLIT_TITLES,
        ratio=profile.ratio,
        plot=plot_counts(counts),
        sizes=size_facts(survey.headers),
        leaked=sum(leaks(survey, found).values()),
        found=found,
        pairs=[
            shown(survey, pair, with_images=place < PAIRS_WITH_IMAGES)
            for place, pair in enumerate(pairs[:PAIRS_LISTED])
        ],
        unlisted=max(0, len(pairs) - PAIRS_LISTED),
        meaning=list(duplicate_sentences(survey, found)),
        how_found=HOW_FOUND,
        broken=list(survey.broken.items())[:BROKEN_LISTED],
        remarks=[*profile.remarks(), *survey.remarks, *small_class_sentences(survey)],
        plan=plan,
    )


def _counted(survey: Survey) -> Result:
    """The class counts as a result without measurements, for the plots."""
    by_split = survey.counts()
    data = {
        "spec": survey.spec,
        "fingerprint": survey.dataset.fingerprint if survey.dataset else "n/a",
        "counts": next(iter(by_split.values())).tolist(),
        "class_names": list(survey.class_names),
    }
    return parse_result({"method": "", "top1": {"last": None}, "protocol": {"seed": 0}, "dataset": data}, survey.spec)


def shown(survey: Survey, pair: DuplicatePair, *, with_images: bool) -> ShownPair:
    """A pair with its names, and with its images if wanted."""
    one, other = pair.first, pair.second
    return ShownPair(
        pair,
        (survey.name(one), survey.name(other)),
        (SPLIT_TITLES[survey.splits[one]], SPLIT_TITLES[survey.splits[other]]),
        (survey.class_names[survey.labels[one]], survey.class_names[survey.labels[other]]),
        (_data_uri(survey, one), _data_uri(survey, other)) if with_images else None,
    )


def _data_uri(survey: Survey, image: int) -> str:
    for images in survey.images:
        if image < len(images):
            step = -(-max(images.shape[1:3]) // MAX_SIDE)
            return image_uri(np.ascontiguousarray(images[image, ::step, ::step]))
        image -= len(images)
    raise IndexError(image)
