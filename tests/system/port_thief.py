"""A server whose port is taken by somebody else just after it was found to be free.

Called as a program with when it is taken, and with the file of the settings: ``checked``, before
the supervisor opens the port, or ``started``, before the workers do; then, one of them ends while
the server stops.
"""

import os
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lakebed.server.config_files import load
from lakebed.server.processes import supervisor
from lakebed.server.processes.granian_parts import GranianServer
from lakebed.server.processes.preflight import CannotStart, check_place


def main() -> None:
    """Serve; print why that was not possible."""
    settings = load(Path(sys.argv[2]), environment=os.environ)
    thief = socket.socket()
    spawn_workers, stop_workers = GranianServer._spawn_workers, GranianServer._stop_workers

    def take_port() -> None:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind((settings.listen.host, settings.listen.port))
        thief.listen()

    def check_then_take(*arguments: Any) -> str:
        address = check_place(*arguments)
        take_port()
        return address

    def take_then_spawn(*arguments: Any) -> None:
        take_port()
        spawn_workers(*arguments)  # type: ignore[no-untyped-call] # it has no types

    def end_one_then_stop(server: Any) -> None:
        server.interrupt_children.append(0)
        stop_workers(server)  # type: ignore[no-untyped-call] # it has no types

    places: dict[str, AbstractContextManager[object]] = {
        "checked": patch.object(supervisor, "check_place", check_then_take),
        "started": patch.multiple(
            GranianServer, _spawn_workers=take_then_spawn, _stop_workers=end_one_then_stop
        ),
    }
    try:
        with places[sys.argv[1]]:
            supervisor.serve(settings, factory="tests.system.server_app:create")
    except CannotStart as error:
        print(error)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
