"""Licences of weights: Apache, MIT and BSD are downloaded as they are, all others only if the user agrees."""

import re

from tailcloud.errors import UsageError
from tailcloud.weights.catalogue import CatalogueEntry


def is_permissive(licence: str | None) -> bool:
    """Whether a licence is Apache, MIT or BSD."""
    return licence is not None and re.match(r"(apache|mit|bsd)\b", licence, re.IGNORECASE) is not None


def check_licence(entry: CatalogueEntry) -> None:
    """Refuse weights whose licence the user has to agree to first."""
    if not is_permissive(entry.licence):
        raise UsageError(
            f"the weights {entry.name} have {licence_text(entry.licence)}, not Apache, MIT or BSD; if it allows your "
            f'use, run "tailcloud weights get {entry.name} --accept-licence"'
        )


def licence_text(licence: str | None) -> str:
    """The licence in words."""
    return f"the licence {licence}" if licence else "an unknown licence"
