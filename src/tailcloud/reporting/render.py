"""From a template to a page: what every page knows, and what a browser is told it may do."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import tailcloud
from tailcloud import formatting
from tailcloud.profile import FEW_BELOW, GROUPS, MANY_ABOVE
from tailcloud.reporting import comparison, provenance, tables
from tailcloud.runs.result import Result

GROUP_BOUNDS = {
    "many": f"more than {MANY_ABOVE} images",
    "medium": f"{FEW_BELOW} to {MANY_ABOVE} images",
    "few": f"fewer than {FEW_BELOW} images",
}
MIXES = {
    "forward": "as in training",
    "uniform": "all classes alike",
    "backward": "the other way around: the rarest as often as the most frequent was",
}
ASSUMED = {"train": "the one it was trained on", "uniform": "one of all classes alike"}
SPLITS = {"test": "the test set", "val": "a validation part", "train": "the training set"}


def render(template: str, **content: Any) -> str:
    """A page from its template."""
    return _environment().get_template(template).render(**content)


def tested_words(result: Result, group: str) -> str:
    """What the accuracy of a shot group is measured on, to follow its classes: "; 6 test images, of 3 of them"."""
    classes, images = result.tested[group]
    if not images:
        return ""
    some = f", of {classes} of them" if classes < result.group_sizes[group] else ""
    return f"; {formatting.counted(images, 'test image')}{some}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tailcloud.reporting"),
        autoescape=True,  # class names, specifications and commands are strangers' words
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (
        formatting.number,
        formatting.percent,
        formatting.whole,
        formatting.magnitude,
        formatting.duration,
        formatting.moment,
    )
    environment.filters |= {word.__name__: word for word in words}
    environment.globals |= {"counted": formatting.counted, "tables": tables, "zip": zip, "GROUPS": GROUPS}
    environment.globals |= {
        "GROUP_BOUNDS": GROUP_BOUNDS,
        "SPLITS": SPLITS,
        "origin": provenance,
        "comparing": comparison,
    }
    environment.globals |= {"MIXES": MIXES, "ASSUMED": ASSUMED, "tested_words": tested_words}
    environment.globals |= {"version": tailcloud.__version__, "script": _script(), "script_digest": _digest(_script())}
    return environment


def _script() -> Markup:
    """The one script of a page: it searches tables. Nothing else may run, as the page's digest of it tells browsers."""
    return Markup(files("tailcloud.reporting").joinpath("templates/search.js").read_text(encoding="utf-8"))


def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
