"""A server whose port is taken by somebody else just after it was found to be free.

Called as a program with the file of the settings.
"""

import os
import socket
import sys
from pathlib import Path
from unittest.mock import patch

from lakebed.server.config_files import load
from lakebed.server.processes import supervisor
from lakebed.server.processes.preflight import CannotStart, check_place
from lakebed.server.settings import ServerSettings


def main() -> None:
    """Serve; print why that was not possible."""
    settings = load(Path(sys.argv[1]), environment=os.environ)
    thief = socket.socket()

    def check_then_take(checked: ServerSettings) -> None:
        check_place(checked)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind((settings.listen.host, settings.listen.port))
        thief.listen()

    try:
        with patch.object(supervisor, "check_place", check_then_take):
            supervisor.serve(settings, factory="tests.system.server_app:create")
    except CannotStart as error:
        print(error)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
