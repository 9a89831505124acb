"""``python -m tailcloud`` is the ``tailcloud`` command."""

from tailcloud.cli import main

if __name__ == "__main__":
    main()
