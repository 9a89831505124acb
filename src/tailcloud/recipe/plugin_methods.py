"""Methods that plugins register as TOML text."""

from dataclasses import dataclass
from pathlib import Path

from tailcloud.errors import UsageError


@dataclass(frozen=True)
class PluginMethod:
    """The TOML text of a method."""

    name: str
    text: str

    def __str__(self) -> str:
        """Its name in errors."""
        return f"the method {self.name}"

    def read_text(self, encoding: str = "utf-8") -> str:  # noqa: ARG002
        """The text."""
        return self.text


PLUGIN_METHODS: dict[str, PluginMethod] = {}


def plugin_method(name: str, toml: str | Path) -> PluginMethod:
    """A method from text, or from a file: a ``Path``, or a string of one line that ends in .toml."""
    if isinstance(toml, str) and not ("\n" not in toml and toml.endswith(".toml")):
        return PluginMethod(name, toml)
    try:
        return PluginMethod(name, Path(toml).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the method {name}: {toml} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the method {name}: {toml} is not UTF-8 text") from None
