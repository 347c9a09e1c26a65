"""Time-outs that the kernel looks after.

Python's own would ask it before each step whether that can be done, and each question lets other
threads run first. With many of them, that takes longer than all the rest of a call.
"""

import socket
import struct


def bound_by_kernel(connected: socket.socket, seconds: float) -> None:
    """Let each step on a blocking socket take so long at most; then it fails with `EAGAIN`."""
    bound = struct.pack("ll", *divmod(int(seconds * 1_000_000), 1_000_000))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connected.setsockopt(socket.SOL_SOCKET, option, bound)
