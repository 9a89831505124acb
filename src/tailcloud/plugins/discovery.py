"""Loading plugins: Python files given with ``--plugin``, and entry points of installed packages."""

import hashlib
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from tailcloud.errors import PLUGIN_MODULES, UsageError, plugin_sentence
from tailcloud.files import expand_home

GROUP = "tailcloud.plugins"

_files: dict[Path, tuple[str, str]] = {}  # by resolved path: the path as given, and a digest of the content
_packages: dict[EntryPoint, str] = {}  # by entry point: package and version


def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers parts; a file that was loaded before is skipped.

    The file may import modules from its own folder. Any error in it becomes a ``UsageError`` with file and line.
    """
    file = expand_home(str(path))
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise UsageError(f"the plugin {path} {problem}; --plugin takes the path of a Python file")
    resolved = file.resolve()
    if resolved in _files:
        return
    try:
        source = resolved.read_bytes()
    except OSError as error:
        raise UsageError(f"the plugin {path} cannot be read: {error.strerror}") from None
    _run(resolved, source, str(path))
    _files[resolved] = str(path), hashlib.sha256(source).hexdigest()[:12]


def _run(resolved: Path, source: bytes, name: str) -> None:
    """Execute a plugin as a module of its own, without a bytecode file."""
    module = ModuleType(_module_name(resolved))
    module.__file__ = str(resolved)
    if str(resolved.parent) not in sys.path:
        sys.path.append(str(resolved.parent))  # last: modules next to a plugin must not shadow installed ones
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


def _module_name(resolved: Path) -> str:
    stem = re.sub(r"\W", "_", resolved.stem)
    return f"tailcloud_plugin_{stem}_{hashlib.sha256(bytes(resolved)).hexdigest()[:8]}"


def load_entry_points() -> list[str]:
    """Load the entry points ``tailcloud.plugins`` of installed packages; returns a sentence for each that fails.

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
    """The paths of the loaded plugin files, as given."""
    return [name for name, _ in _files.values()]


def plugin_arguments() -> list[str]:
    """The command-line arguments that load the same files."""
    return [argument for name in loaded_files() for argument in ("--plugin", name)]


def plugins_fingerprint() -> str:
    """All loaded plugins, with the digest of a file or the version of a package; empty without plugins."""
    files = (f"{Path(name).name} {digest}" for name, digest in _files.values())
    return ", ".join([*files, *sorted(set(_packages.values()))])
