"""Where results come from: machine, versions and commit, as text."""

from collections.abc import Callable, Iterable

from tailcloud.runs.result import Result

LIBRARIES = ("python", "torch", "numpy")


def machine(result: Result) -> str:
    """ "cpu, 1 thread a run", with GPU, processor and platform if known."""
    parts = [result.machine.get("gpu"), result.machine.get("processor"), result.machine.get("platform")]
    return ", ".join([f"{result.device}, {threads(result)} a run", *(str(part) for part in parts if part)])


def threads(result: Result) -> str:
    """ "1 thread"; "? threads" if not recorded."""
    count = result.machine.get("threads")
    return "1 thread" if count == 1 else f"{count or '?'} threads"


def versions(result: Result) -> str:
    """The versions of tailcloud and of the libraries it ran on."""
    libraries = (f"{name} {result.machine[name]}" for name in LIBRARIES if result.machine.get(name))
    return ", ".join([f"tailcloud {result.version}", *libraries])


def commit(result: Result) -> str:
    """The commit, or "unknown"."""
    return result.commit or "unknown"


def distinct(results: Iterable[Result], describe: Callable[[Result], str]) -> list[str]:
    """The distinct descriptions of the results, in their order."""
    return list(dict.fromkeys(describe(result) for result in results))
