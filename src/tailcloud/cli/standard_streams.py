"""Standard input, output and error of the command, as whoever started it left them: closed, or not UTF-8."""

import io
import os
import sys

STANDARD_DESCRIPTORS = (0, 1, 2)


def prepare_standard_streams() -> None:
    """Open closed streams on the null device, and write characters that a stream lacks as ``\\u03b3``.

    Otherwise the next file that is opened gets the number of a closed stream, and what is printed goes into it. A
    closed stream stays None in ``sys``.
    """
    for descriptor in STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
