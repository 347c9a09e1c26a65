"""``python -m lakebed`` is the command ``lakebed``."""

from lakebed.clients.cli import main

if __name__ == "__main__":
    main()
