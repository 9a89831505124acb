"""The records of benchmarks/streaming.py as a table for docs/streaming.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.reporting.tables import markdown

HEAD = ("network, pixels, batch", "decoding", "cache in a folder", "cache in memory", "on the device")
ON_DEVICE = HEAD[-1]


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Images a second, a row for each network, and where that was measured."""
    places: dict[str, list[str]] = {}
    for record in records:
        places.setdefault(origin(record), []).append(name_of(record))
    lines = places if len(places) == 1 else [f"- {'; '.join(names)}: {place}" for place, names in places.items()]
    return [markdown(HEAD, [row(record) for record in records]), "", *lines]


def name_of(record: dict[str, Any]) -> str:
    """Network, pixels and batch."""
    return f"{record['backbone']}, {record['size']}, {record['batch']}"


def row(record: dict[str, Any]) -> list[str]:
    """A network: images a second of each loader."""
    rates = {found["name"]: found["images_per_second"] for found in record["rows"]}
    return [name_of(record), *(cell(rates.get(way), rates.get(ON_DEVICE)) for way in HEAD[1:])]


def cell(rate: float | None, best: float | None) -> str:
    """Images a second, beside the share of those with all images on the device."""
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if not best else f"{rate:,.0f} ({100 * rate / best:.0f} %)"


def origin(record: dict[str, Any]) -> str:
    """The data and the machine."""
    about = record["machine"]
    where = about["gpu"] or about["processor"]
    return (
        f"{record['data']}, {record['workers']} processes that read, {where} and {about['cores']} cores, "
        f"torch {about['torch']}, commit `{record['commit']}`."
    )
