"""The model card of a run, in Markdown: what the model is, what it was measured on, and what was not measured."""

import html
import math
import re
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tailcloud import formatting
from tailcloud.data.read_options import Fit
from tailcloud.files import write_atomically
from tailcloud.formatting import counted, number
from tailcloud.profile import GROUPS
from tailcloud.reporting.render import GROUP_BOUNDS, MIXES, SPLITS
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile, read_model_file
from tailcloud.runs.result import Result, Scores
from tailcloud.serving.export import check_target

CARD = "model-card.md"
RAREST = 10
LONGEST = 200  # characters of a name
FEW_TO_TEST = 10
NORMAL = 1.96  # two-sided 95 % of a normal distribution
FITS: dict[Fit, str] = {
    "crop": "its middle is cut out with the aspect of the model's images and scaled",
    "pad": "the whole image is scaled until it fits, and the rest is black",
    "squash": "each side is scaled by itself",
}


@dataclass(frozen=True)
class ClassRow:
    """A class: its name, its training and test images, and its accuracy in percent."""

    name: str
    train: int
    test: int | None
    accuracy: float | None


def model_card(run: Path) -> str:
    """The card of a finished run, from its result.json and model.json alone."""
    folder = RunFolder(run)
    result, about = folder.result(), read_model_file(folder.model_file)
    scores: Scores = result.picked or result
    return (
        _environment()
        .get_template("card.md.j2")
        .render(
            result=result,
            data=result.dataset,
            model=result.model,
            about=about,
            picked=result.picked,
            scores=scores,
            top1=result.picked.top1 if result.picked else result.top1.last,
            rarest=rarest(result, scores),
            limits=limits(result, about),
        )
    )


def write_card(run: Path, out: Path | None = None, *, force: bool = False) -> Path:
    """Write the card of a run, by default into its folder; people complete cards, so one is replaced only by force."""
    card = model_card(run)
    target = check_target(run, out or run / CARD, force=force)
    write_atomically(target, card)
    return target


def rarest(result: Result, scores: Scores) -> list[ClassRow]:
    """The classes with the fewest training images, the rarest first."""
    data = result.dataset
    return [
        ClassRow(
            result.names[index],
            data.counts[index],
            data.test_counts[index] if data.test_counts else None,
            scores.per_class[index] if scores.per_class else None,
        )
        for index in reversed(result.order[-RAREST:])
    ]


def limits(result: Result, about: ModelFile) -> list[str]:
    """What the figures do not say, in sentences."""
    said = [
        _chance(result),
        *_small_classes(result),
        "Not measured: images from other cameras, places, times or people than those of the test part; images of none "
        "of the classes; damaged or manipulated images; whether groups of people are treated alike.",
        "Whether near-twins of test images were trained on is not known from the result: tailcloud inspect looks "
        "for them in the data.",
        "Top-1 is of the mix of classes of the test part; where classes come in another mix, it is another one.",
    ]
    if about.calibration.fitted_on is None:
        said.append("Without held-out images nothing was done about the model being too sure or too modest.")
    return said


def _chance(result: Result) -> str:
    images = result.dataset.images.get("test")
    top1 = result.picked.top1 if result.picked else result.top1.last
    if not images or top1 is None:
        return "How many test images there were is not recorded."
    half = 100 * NORMAL * math.sqrt(top1 / 100 * (1 - top1 / 100) / images)
    return (
        f"The test part has {counted(images, 'image')}: by chance alone, top-1 is uncertain by about "
        f"{number(half)} points each way (95 %); a group or a class has fewer images, and is less certain."
    )


def _small_classes(result: Result) -> list[str]:
    tests = result.dataset.test_counts
    none = sum(count == 0 for count in tests)
    few = sum(0 < count < FEW_TO_TEST for count in tests)
    said = []
    if none:
        said.append(f"{counted(none, 'class', 'classes')} without a test image, whose accuracy is not known.")
    if few:
        said.append(
            f"{counted(few, 'class', 'classes')} with fewer than {FEW_TO_TEST} test images: their accuracy is a guess."
        )
    absent = sum(count == 0 for count in result.dataset.counts)
    if absent:
        said.append(f"{counted(absent, 'class', 'classes')} without a training image.")
    return said


def plain(value: object) -> object:
    """Text as Markdown that shows it and does nothing else: one line, no markup, no HTML, no links."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    line = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
    return re.sub(r"([\\`*_\[\]#!|~@$]|:(?=//)|^[-+=])", r"\\\1", html.escape(line, quote=False))


def code(value: str) -> Markup:
    """A command as a block of code; nothing at all where there is none."""
    line = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return Markup(f"    {line}" if line else "")  # indented code has no end mark that a stranger could write


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tailcloud.reporting"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=plain,  # class names, specifications and remarks are strangers' words
    )
    words = (formatting.number, formatting.whole, formatting.magnitude, formatting.moment)
    environment.filters |= {word.__name__: word for word in words}
    environment.filters["code"] = code
    environment.globals |= {"counted": counted, "GROUPS": GROUPS, "GROUP_BOUNDS": GROUP_BOUNDS}
    environment.globals |= {"SPLITS": SPLITS, "FITS": FITS, "MIXES": MIXES}
    return environment
