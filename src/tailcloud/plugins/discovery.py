"""Where plugins come from: Python files that a command names, and installed packages that announce themselves."""

import hashlib
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from tailcloud.errors import PLUGIN_MODULES, UsageError, plugin_sentence

GROUP = "tailcloud.plugins"

_files: dict[Path, tuple[str, str]] = {}  # by place: as it was named, and a digest of its text
_packages: dict[EntryPoint, str] = {}  # by entry point: package and version


def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers parts. The same file again does nothing.

    The file's folder can be imported from, as if Python ran the file. What goes wrong in it is one sentence.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        what = (
            "a folder; name the Python file in it"
            if file.is_dir()
            else "not there; --plugin takes a Python file's path"
        )
        raise UsageError(f"the plugin {path} is {what}")
    place = file.resolve()
    if place in _files:
        return
    try:
        source = place.read_bytes()
    except OSError as error:
        raise UsageError(f"the plugin {path} cannot be read: {error.strerror}") from None
    _run(place, source, str(path))
    _files[place] = str(path), hashlib.sha256(source).hexdigest()[:12]


def _run(place: Path, source: bytes, name: str) -> None:
    """Execute a plugin as a module of its own; nothing is written beside it."""
    module = ModuleType(_module_name(place))
    module.__file__ = str(place)
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))  # last: a plugin's neighbours take nobody's name
    sys.modules[module.__name__] = module
    PLUGIN_MODULES.add(module.__name__)
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise UsageError(_sentence(error, name)) from None


def _sentence(error: BaseException, name: str) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    return plugin_sentence(error) or f"{name}: {type(error).__name__}: {error}"


def _module_name(place: Path) -> str:
    stem = re.sub(r"\W", "_", place.stem)
    return f"tailcloud_plugin_{stem}_{hashlib.sha256(bytes(place)).hexdigest()[:8]}"


def load_entry_points() -> list[str]:
    """Load what installed packages announce under ``tailcloud.plugins``; a sentence for each that fails.

    An entry point is a module, which registers its parts when it is imported, or a function that does so.
    """
    remarks = []
    for entry in entry_points(group=GROUP):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module
        if entry in _packages:
            continue
        try:
            _load_entry(entry)
            _packages[entry] = package
        except (Exception, SystemExit) as error:
            what = _sentence(error, entry.value)
            remarks.append(f'The plugin "{entry.name}" of the package {package} cannot be loaded: {what}')
    return remarks


def _load_entry(entry: EntryPoint) -> None:
    PLUGIN_MODULES.add(entry.module.partition(".")[0])
    loaded = entry.load()
    if callable(loaded):
        loaded()


def loaded_files() -> list[str]:
    """The plugin files of this process, as they were named."""
    return [name for name, _ in _files.values()]


def words() -> list[str]:
    """The part of a command that loads the same files."""
    return [word for name in loaded_files() for word in ("--plugin", name)]


def fingerprint() -> str:
    """What is loaded, by name and content or version: another one may compute something else. Empty without any."""
    files = (f"{Path(name).name} {digest}" for name, digest in _files.values())
    return ", ".join([*files, *sorted(set(_packages.values()))])
