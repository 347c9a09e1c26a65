"""Sets up the installation at a URL as soon as it is told to, and says what came of it.

Arguments: the URL, the name of the user, and at which of its writes to stop for good (0: at none).
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from lakebed.auth import AlreadySetUp
from lakebed.kv import open_store
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.auth.kit import service

ResultT = TypeVar("ResultT")


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main(url: str, user: str, stop_at: str) -> None:
    left = int(stop_at)

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        nonlocal left
        result = apply()
        left -= call.writes
        if call.writes and left == 0:
            say("stopped")
            sys.stdin.readline()
        return result

    with open_store(url) as store:
        auth = service(FaultyStore(store, intercept))
        say("ready")
        sys.stdin.readline()
        try:
            new = auth.setup(user)
        except AlreadySetUp:
            say("already set up")
        else:
            say("won", new.access_key_id, new.secret_access_key)


if __name__ == "__main__":
    main(*sys.argv[1:])
