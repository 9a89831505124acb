"""Methods that are not files of the package: plugins write them down."""

from dataclasses import dataclass
from pathlib import Path

from tailcloud.errors import UsageError


@dataclass(frozen=True)
class Written:
    """A method's TOML under a name."""

    name: str
    text: str

    def __str__(self) -> str:
        """What errors call it."""
        return f"the method {self.name}"

    def read_text(self, encoding: str = "utf-8") -> str:  # noqa: ARG002
        """What its file would hold."""
        return self.text


WRITTEN: dict[str, Written] = {}


def written(name: str, toml: str | Path) -> Written:
    """A method from text, or from a file: a ``Path``, or a string of one line that ends in .toml."""
    if isinstance(toml, str) and not ("\n" not in toml and toml.endswith(".toml")):
        return Written(name, toml)
    try:
        return Written(name, Path(toml).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the method {name}: {toml} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the method {name}: {toml} is not text") from None
