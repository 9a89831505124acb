"""The command line, in the process of the tests."""

from typer.testing import CliRunner

from tailcloud.cli import app


def printed(words):
    """What a command prints that ends well: a line without ``tailcloud``, or the words of one."""
    words = words.split() if isinstance(words, str) else list(words)
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, f"{words}: {result.output}"
    return result.output
