"""Time-outs of the kernel: a socket that stays silent does not hold its reader up for ever."""

import socket

import pytest

from lakebed.kv.pool import bound_by_kernel


@pytest.mark.timeout(30)
def test_a_silent_socket_is_given_up() -> None:
    here, there = socket.socketpair()
    with here, there:
        bound_by_kernel(here, 0.01)
        assert here.gettimeout() is None
        with pytest.raises(BlockingIOError):
            here.recv(1)
        there.sendall(b"x")
        assert here.recv(1) == b"x"
        with pytest.raises(BlockingIOError):
            here.sendall(bytes(1 << 24))
