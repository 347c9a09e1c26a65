"""Socket time-outs enforced by the kernel.

Python's own time-outs poll before each operation, and each poll lets other threads run first. With
many threads, this takes longer than the rest of a call.
"""

import socket
import struct


def bound_by_kernel(connected: socket.socket, seconds: float) -> None:
    """Limit each operation on a blocking socket; on time-out it fails with `EAGAIN`."""
    bound = struct.pack("ll", *divmod(int(seconds * 1_000_000), 1_000_000))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connected.setsockopt(socket.SOL_SOCKET, option, bound)
