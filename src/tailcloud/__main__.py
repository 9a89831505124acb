"""``python -m tailcloud`` is the ``tailcloud`` command."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109 (not imported yet)
    del sys.path[0]  # "-m" puts the working folder first, where a file json.py may come from anybody

from tailcloud.cli import main

if __name__ == "__main__":
    main()
