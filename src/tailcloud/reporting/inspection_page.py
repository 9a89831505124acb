"""The page about a data set: what is in it, what is wrong with it, and what training on it would be."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcloud.data.inspection.duplicates import ALIKE, ALIKE_IN_GREY, DISTANCE, Duplicates
from tailcloud.data.inspection.findings import (
    PART_WORDS,
    Pair,
    duplicate_sentences,
    leaks,
    listed_pairs,
    size_facts,
    small_class_sentences,
)
from tailcloud.data.inspection.survey import Survey
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import counted
from tailcloud.profile import Profile
from tailcloud.reporting import report_path, write_page
from tailcloud.reporting.figures.class_plots import plot_counts
from tailcloud.reporting.image_uri import image_uri
from tailcloud.reporting.render import render
from tailcloud.runs.result import Result, parse_result

PICTURED, LISTED = 12, 500  # pairs
BROKEN_LISTED = 500
WIDEST = 64  # pixels of a picture on the page
CANNOT_SEE = (
    f"Nearly the same: difference hashes of 64 bits that differ in at most {DISTANCE} bits, and thumbnails that "
    f"correlate by {ALIKE} ({ALIKE_IN_GREY} where all images are grey) or more. That finds copies that were saved "
    "again, scaled or made a little brighter. It does not find mirrored, turned, squashed or cropped copies, nor other "
    "photographs of the same thing; and what differs in details alone is paired."
)


@dataclass(frozen=True)
class Plan:
    """What training would do: the command, the reasons, and the recipe as TOML."""

    command: str
    reasons: Sequence[str]
    recipe: str


@dataclass(frozen=True)
class Shown:
    """A pair as the page shows it: two names, parts and classes, and perhaps two pictures."""

    pair: Pair
    names: tuple[str, str]
    parts: tuple[str, str]
    classes: tuple[str, str]
    pictures: tuple[str, str] | None = None


def write_inspection(place: Path, survey: Survey, found: Duplicates, plan: Plan | None) -> Path:
    """Write the page; a page of tailcloud is replaced, any other file is refused."""
    return write_page(inspection_place(place), inspection_page(survey, found, plan))


def inspection_place(place: Path) -> Path:
    """Where the page may be written without destroying anything."""
    try:
        return report_path([place.parent], place, "inspection.html")
    except UsageError as error:
        raise UsageError(str(error).replace("--out", "--html")) from None
    except TailcloudError as error:
        raise TailcloudError(str(error).replace("--out", "--html")) from None


def inspection_page(survey: Survey, found: Duplicates, plan: Plan | None) -> str:
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
        by_part=survey.counts(),
        part_words=PART_WORDS,
        ratio=profile.ratio,
        plot=plot_counts(counts),
        sizes=size_facts(survey.headers),
        leaked=sum(leaks(survey, found).values()),
        found=found,
        pairs=[shown(survey, pair, pictured=place < PICTURED) for place, pair in enumerate(pairs[:LISTED])],
        unlisted=max(0, len(pairs) - LISTED),
        meaning=list(duplicate_sentences(survey, found)),
        cannot_see=CANNOT_SEE,
        broken=list(survey.broken.items())[:BROKEN_LISTED],
        remarks=[*profile.remarks(), *survey.remarks, *small_class_sentences(survey)],
        plan=plan,
    )


def _counted(survey: Survey) -> Result:
    """The counts as plots read them: a result of which nothing is measured yet."""
    by_part = survey.counts()
    data = {
        "spec": survey.spec,
        "fingerprint": survey.dataset.fingerprint if survey.dataset else "n/a",
        "counts": next(iter(by_part.values())).tolist(),
        "class_names": list(survey.class_names),
    }
    return parse_result({"method": "", "top1": {"last": None}, "protocol": {"seed": 0}, "dataset": data}, survey.spec)


def shown(survey: Survey, pair: Pair, *, pictured: bool) -> Shown:
    """A pair by names, and with its pictures where there is room for them."""
    one, other = pair.first, pair.second
    return Shown(
        pair,
        (survey.name(one), survey.name(other)),
        (PART_WORDS[survey.parts[one]], PART_WORDS[survey.parts[other]]),
        (survey.class_names[survey.labels[one]], survey.class_names[survey.labels[other]]),
        (_picture(survey, one), _picture(survey, other)) if pictured else None,
    )


def _picture(survey: Survey, image: int) -> str:
    for part in survey.images:
        if image < len(part):
            step = -(-max(part.shape[1:3]) // WIDEST)
            return image_uri(np.ascontiguousarray(part[image, ::step, ::step]))
        image -= len(part)
    raise IndexError(image)
