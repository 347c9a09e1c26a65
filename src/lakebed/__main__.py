"""``python -m lakebed`` is the command ``lakebed``."""

from lakebed.cli import main

if __name__ == "__main__":
    main()
