"""The model card of a run, in Markdown: what the model is, what it was measured on, and what was not measured."""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tailcloud import formatting
from tailcloud.confidence_interval import wilson_interval
from tailcloud.files import write_atomically
from tailcloud.formatting import counted, markdown_text, one_line, shortened
from tailcloud.profile import GROUPS
from tailcloud.reporting import labels
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile, read_model_file
from tailcloud.runs.result import Result, Scores
from tailcloud.serving.export import check_target

CARD = "model-card.md"
RAREST_LISTED = 10  # classes
LONGEST_TEXT = 200  # characters of a name
FEW_TEST_IMAGES = 10  # below this, the accuracy of a class is unreliable


@dataclass(frozen=True)
class ClassRow:
    """A class: its name, its training and test images, and its accuracy in percent."""

    name: str
    train: int
    test: int | None
    accuracy: float | None


def model_card(run: Path) -> str:
    """The card of a finished run, from its result.json and model.json."""
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
    """Write the card of a run, by default into its folder; ``force`` replaces one that a person may have edited."""
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
        for index in reversed(result.order[-RAREST_LISTED:])
    ]


def limits(result: Result, about: ModelFile) -> list[str]:
    """What the numbers do not tell, as sentences."""
    sentences = [
        _uncertainty(result),
        *_small_classes(result),
        "Not measured: images from other cameras, places, times or people than the test images; images of other "
        "classes; damaged or manipulated images; fairness between groups of people.",
        "Not checked here: training images that are near duplicates of test images; run tailcloud inspect on the data.",
        "Top-1 accuracy depends on the class frequencies of the test images; with other frequencies it differs.",
    ]
    if result.model.weights:
        sentences.append(
            "Not checked: whether test images, or images like them, are among those that the pretrained weights were "
            "trained on."
        )
    if about.calibration.fitted_on is None:
        sentences.append("Probabilities are not calibrated: the model may be overconfident or underconfident.")
    return sentences


def _uncertainty(result: Result) -> str:
    images = result.dataset.images.get("test")
    top1 = result.picked.top1 if result.picked else result.top1.last
    if not images or top1 is None:
        return "The number of test images is not recorded."
    return (
        f"With {counted(images, 'test image')}, the 95 % confidence interval of top-1 is "
        f"{wilson_interval(top1, images).text} %; that of a shot group or a class is wider."
    )


def _small_classes(result: Result) -> list[str]:
    tests = result.dataset.test_counts
    none = sum(count == 0 for count in tests)
    few = sum(0 < count < FEW_TEST_IMAGES for count in tests)
    sentences = []
    if none:
        sentences.append(f"{counted(none, 'class', 'classes')} without a test image: accuracy unknown.")
    if few:
        sentences.append(
            f"{counted(few, 'class', 'classes')} with fewer than {FEW_TEST_IMAGES} test images: accuracy unreliable."
        )
    absent = sum(count == 0 for count in result.dataset.counts)
    if absent:
        sentences.append(f"{counted(absent, 'class', 'classes')} without a training image.")
    return sentences


def escape_markdown(value: object) -> object:
    """Text as one line of Markdown without markup, HTML or links; other values stay as they are."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return markdown_text(shortened(one_line(value), LONGEST_TEXT))


def code(value: str) -> Markup:
    """A command as an indented code block; empty if the command is unknown."""
    line = one_line(value)
    return Markup(f"    {line}" if line else "")  # untrusted text cannot end an indented block


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tailcloud.reporting"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=escape_markdown,  # class names, specifications and remarks are untrusted text
    )
    filters = (formatting.number, formatting.whole, formatting.magnitude, formatting.moment)
    environment.filters |= {one.__name__: one for one in filters}
    environment.filters["code"] = code
    environment.globals |= {"counted": counted, "labels": labels, "GROUPS": GROUPS, "FITS": labels.FITS}
    return environment
