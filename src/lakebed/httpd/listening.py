"""The listening socket, which several processes can share."""

import socket
from typing import Final

BACKLOG: Final = 1024
"""Connections that the kernel queues until a process accepts them."""


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket for `WSGIServer`, at a numeric address.

    Raises:
        OSError: The port cannot be opened.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        # Otherwise a recently used port would be refused.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by connections: responses are sent without delay.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
