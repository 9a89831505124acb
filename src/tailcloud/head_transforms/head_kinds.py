"""Which head a change makes of which."""

from collections.abc import Mapping

SCALED = {"linear": "scaled-linear", "cosine": "scaled-cosine"}
SHIFTED = {"linear": "linear", "cosine": "scaled-cosine", **{kind: kind for kind in SCALED.values()}}
ALIGNED = {"linear": "disalign-linear", "cosine": "disalign-cosine"}


def made_of(before: str, kinds: Mapping[str, str], change: str) -> str:
    """The head that ``kinds`` has for the one before; ``ValueError`` with a sentence where it has none."""
    if before not in kinds:
        raise ValueError(
            f'"{change}" cannot change a {before} head; the stage before must leave one of: {", ".join(kinds)}'
        )
    return kinds[before]
