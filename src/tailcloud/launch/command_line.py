"""The command that repeats what was done: run folders record it, and messages say how to go on."""

import shlex
from collections.abc import Iterable, Mapping, Sequence

from tailcloud import plugins


def command_line(
    verb: str, words: Iterable[str], options: Mapping[str, str | Sequence[str] | None], seed: int | None = None
) -> str:
    """A command of tailcloud with the plugin files of this process, as a shell reads it.

    Args:
        verb: such as "train".
        words: its arguments without a name.
        options: by name; None leaves an option out, and a sequence repeats it.
        seed: of the run.
    """
    listed = {name: [value] if isinstance(value, str) else value or [] for name, value in options.items()}
    named = [word for name, values in listed.items() for value in values for word in (name, value)]
    last = [] if seed is None else ["--seed", str(seed)]
    return shlex.join(["tailcloud", verb, *words, *named, *plugins.plugin_arguments(), *last])
