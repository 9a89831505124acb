"""The base of the JSON records in a run folder: one schema both writes and reads a file."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

STRICT = {"unknown keys": "forbidden"}  # the validation context of a new record


def _finite(value: object) -> object:
    """NaN and infinity are not measurements."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measured = Annotated[float | None, BeforeValidator(_finite)]  # NaN and infinity become None
ImageCount = Annotated[int, Field(ge=0, lt=2**53)]  # beyond it, JSON readers of other languages round


class FileRecord(BaseModel):
    """A table of a JSON file.

    ``model_validate`` reads a record: keys that this version does not know are ignored.
    ``create`` makes a new record: unknown keys are refused, because they would not be written.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    @classmethod
    def create(cls, content: Mapping[str, Any]) -> Self:
        """A new record, checked; pydantic's ``ValidationError`` if a key is unknown, missing or has a wrong value."""
        return cls.model_validate(content, context=STRICT)

    def content(self) -> dict[str, Any]:
        """What is written: the keys that were given, in the order of the schema."""
        return self.model_dump(exclude_unset=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, content: object, info: ValidationInfo) -> object:
        if info.context is STRICT and isinstance(content, Mapping):
            unknown = sorted(content.keys() - cls.model_fields.keys())
            if unknown:
                raise ValueError(f"unknown keys: {', '.join(unknown)}")
        return content


def first_problem(error: ValidationError) -> str:
    """The first problem of a record, as text."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    return f'"{key}": {reason[0].lower()}{reason[1:]}' if key else reason
