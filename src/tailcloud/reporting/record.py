"""What the parts of a record have in common: keys of other versions are ignored, and what is no number is null."""

import math
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _finite(value: object) -> object:
    """NaN and infinity are no measurements."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measured = Annotated[float | None, BeforeValidator(_finite)]


class Part(BaseModel):
    """A part of a record: keys that this version does not know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class Bin(Part):
    """One bin of the reliability diagram."""

    count: int
    confidence: Measured = None
    accuracy: Measured = None
