"""Which pretrained weights a run started from, in ``result.json`` and ``model.json``."""

from tailcloud.runs.record import FileRecord


class WeightsRecord(FileRecord):
    """Name, source and SHA-256 of a weights file, its licence, and what it was trained on; None is unknown.

    ``revision`` is the commit of a file from the hub; ``pixels`` is the image size that the weights were made for.
    """

    name: str
    source: str
    sha256: str
    licence: str | None = None
    trained_on: str | None = None
    revision: str | None = None
    pixels: int | None = None
