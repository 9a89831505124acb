"""Fills the HTML templates: their filters and globals, and the digest of the one script that a page may run."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import tailcloud
from tailcloud import formatting
from tailcloud.profile import GROUPS
from tailcloud.reporting import accuracy_intervals, comparison, labels, provenance, tables
from tailcloud.runs.result import Result

SCRIPTS = ("search.js", "marks.js", "sort.js")  # search; names of dots, bars and cells; order of rows


def render(template: str, **content: Any) -> str:
    """A page from its template."""
    return _environment().get_template(template).render(**content)


def tested_text(result: Result, group: str) -> str:
    """The test images of a shot group, as text that follows its classes: "; 6 test images of 3 classes"."""
    classes, images = result.tested[group]
    if not images:
        return ""
    some = f" of {formatting.counted(classes, 'class', 'classes')}" if classes < result.group_sizes[group] else ""
    return f"; {formatting.counted(images, 'test image')}{some}"


@cache
def _environment() -> Environment:
    """The templates, compiled once for all pages of this process."""
    environment = Environment(
        loader=PackageLoader("tailcloud.reporting"),
        autoescape=True,  # class names, specifications and commands are untrusted text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        formatting.number,
        formatting.percent,
        formatting.whole,
        formatting.magnitude,
        formatting.duration,
        formatting.moment,
    )
    environment.filters |= {one.__name__: one for one in filters}
    environment.filters |= {
        "epochs": labels.epochs_text,
        "seed_text": labels.seed_text,
        "stage_title": labels.stage_title,
    }
    environment.globals |= {"comparison": comparison, "labels": labels, "provenance": provenance, "tables": tables}
    environment.globals |= {"intervals": accuracy_intervals}
    environment.globals |= {"counted": formatting.counted, "tested_text": tested_text, "zip": zip, "GROUPS": GROUPS}
    environment.globals |= {"version": tailcloud.__version__, "script": _script(), "script_digest": _digest(_script())}
    return environment


def _script() -> Markup:
    """The one script of a page. Browsers run no other, because the page names its digest."""
    folder = files("tailcloud.reporting").joinpath("templates")
    return Markup("".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS))


def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
