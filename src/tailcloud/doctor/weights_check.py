"""Pretrained weights: each file of the catalogue that is here is compared with its SHA-256. No request is sent."""

from collections.abc import Iterable

from tailcloud.doctor.check import Check, failing
from tailcloud.weights import CATALOGUE
from tailcloud.weights.catalogue import CatalogueEntry, PackageFile
from tailcloud.weights.resolve import local_file, missing, resolve_entry


def check_weights(entries: Iterable[CatalogueEntry] | None = None) -> list[Check]:
    """Check all weights of the catalogue, or these; those that are not here share one line."""
    known = list(CATALOGUE.values() if entries is None else entries)
    checks: list[Check] = []
    absent = [entry.name for entry in known if not is_required(entry) and local_file(entry) is None]
    for entry in known:
        if entry.name not in absent:
            with failing(entry.name, checks.append):
                checks.append(check_entry(entry))
    if absent:
        checks.append(Check("others", "not here", f'{", ".join(absent)}; "tailcloud weights get NAME" brings one'))
    return checks


def is_required(entry: CatalogueEntry) -> bool:
    """Whether these weights are installed with tailcloud."""
    return isinstance(entry.source, PackageFile) and entry.source.extra is None


def check_entry(entry: CatalogueEntry) -> Check:
    """Compare one file with its SHA-256."""
    if local_file(entry) is None:
        return Check(entry.name, "failed", str(missing(entry)))
    weights = resolve_entry(entry)
    pinned = "as pinned" if entry.source.sha256 else "as the hub names it"
    return Check(entry.name, "ok", f"{weights.source}, SHA-256 {weights.sha256[:16]}…, {pinned}")
