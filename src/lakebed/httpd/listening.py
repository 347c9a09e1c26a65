"""The listening socket, which several processes can share."""

import socket
from typing import Final

BACKLOG: Final = 1024
"""Connections that the system queues until a process accepts them."""


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket for `WSGIServer`, at a numeric address.

    Raises:
        OSError: The port cannot be opened.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        # Else a port that was in use a moment ago would seem taken.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections take this over: an answer goes out at once.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
