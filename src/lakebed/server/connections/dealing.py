"""Workers deal out the connections that they accept, so that each serves as many as the others.

The system gives a new connection to one of the workers by a hash of the client's port. That is fair
to thousands of connections. But of sixteen, one worker often gets ten or more, and of two, half of
the time both: then one processor works, and the others look on. So a worker keeps the first
connection that it accepts, gives the second to the next worker, and so on in a circle.

Each worker gets its connections by a socket in the folder of the server's processes, which nobody
else may enter. A worker that is not there, or has too many waiting, is given none: the one that
accepted the connection keeps it.
"""

import errno
import os
import socket
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_NOTE: Final = b"x"
"""Handles do not travel without a message."""
_RECEIVE: Final = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
_HANDLE_BYTES: Final = array("i").itemsize


class Dealer:
    """Gives connections to the other workers, and takes those that they give to this one."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        """Be the worker of this number, from 0 on, of so many.

        Raises:
            OSError: The folder cannot be entered, or the socket cannot be made.
        """
        self._folder: Final = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # The path of a socket has 107 bytes at most; that of the folder may have more.
        place = f"/proc/self/fd/{self._folder}"
        self._paths: Final = [f"{place}/worker-{each}" for each in range(count)]
        self._number: Final = number
        self._next = number
        self._socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.leave()  # the last worker of this number may have been killed
            self._socket.bind(self._paths[number])
        except OSError:
            self.close()
            raise

    def give(self, connected: socket.socket) -> bool:
        """Give a connection to the worker whose turn it is; return whether that has it now."""
        turn = self._next
        self._next = (turn + 1) % len(self._paths)
        if turn == self._number:
            return False
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connected.fileno()]))]
        try:
            self._socket.sendmsg([_NOTE], rights, socket.MSG_DONTWAIT, self._paths[turn])
        except OSError:
            return False
        connected.close()
        return True

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection that another worker gave to this one, and the client's address.

        Raises:
            BlockingIOError: There is none.
            ConnectionError: The client is gone.
        """
        _, rights, _, _ = self._socket.recvmsg(
            len(_NOTE), socket.CMSG_SPACE(_HANDLE_BYTES), _RECEIVE
        )
        handles = array("i", b"".join(data for _, _, data in rights))
        if not handles:  # this process has as many files open as it may
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        connected = socket.socket(fileno=handles[0])
        try:
            return connected, connected.getpeername()
        except OSError as error:
            connected.close()
            raise ConnectionError from error

    def leave(self) -> None:
        """Be given no more; what is there already can still be taken."""
        with suppress(FileNotFoundError):
            os.unlink(self._paths[self._number])  # noqa: PTH108 - paths of sockets are texts

    def fileno(self) -> int:
        """Return the handle that has an event when another worker gave a connection."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket, and the connections that were not taken."""
        self._socket.close()
        os.close(self._folder)
