"""A store in a real database behind a network that fails on demand, and a look past both."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Self

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import ABSENT, EXISTS, Item, Store, Version
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import puts
from lakebed.testing.servers.databases import DatabaseServer
from lakebed.testing.servers.proxy import Proxy
from tests.kit.garbage import collect_garbage

REPLY_SECONDS = 3.0
"""How long the stores behind a failing network wait for a reply."""
PATIENT_SECONDS = 60.0


@dataclass(frozen=True)
class Database:
    """How tests start a database, and open a store in it that is in a hurry."""

    name: str
    run: Callable[[], AbstractContextManager[DatabaseServer]]
    url: Callable[[int], str]
    open: Callable[[str, Runtime, float], Store]
    take_out_the_fence: Callable[[Store], None]
    """Makes a store of it that does not keep its writes from being applied late."""
    crash: Callable[[DatabaseServer], None] = DatabaseServer.kill
    """Ends the server; in order only if it is an emulator that promises nothing else."""
    durable: bool = True
    """Whether it holds what it held before it was stopped; emulators in memory do not."""
    takes_back: bool = False
    """Whether its client tells the server that it gave a request up, on the same connection."""

    def __str__(self) -> str:
        return self.name

    def open_patient(self, server: DatabaseServer) -> Store:
        """Open a store that waits for replies as long as it takes."""
        return self.open(self.url(server.port), ThreadRuntime(), PATIENT_SECONDS)

    def open_hasty(self, port: int) -> Store:
        """Open a store that soon gives a reply up for lost."""
        return self.open(self.url(port), ThreadRuntime(), REPLY_SECONDS)


@dataclass
class Bench:
    """A store behind a proxy, and one that goes directly to the server."""

    database: Database
    server: DatabaseServer
    proxy: Proxy = field(init=False)
    store: Store = field(init=False)
    direct: Store = field(init=False)

    def __enter__(self) -> Self:
        self.direct = self.database.open_patient(self.server)
        self.proxy = Proxy(
            ("127.0.0.1", self.server.port), lingering=True, forgetful=self.database.takes_back
        )
        self.store = self.database.open_hasty(self.proxy.port)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.store.close()
        self.proxy.close()
        self.direct.close()

    def leave_and_release(self) -> None:
        """Close the store, and let pass what the network holds."""
        self.store.close()
        # boto3 and Azure's client close their connections when they are collected.
        collect_garbage()
        self.proxy.release_and_finish()

    def retrying(self) -> Store:
        return ManagedStore(self.store, ThreadRuntime())

    def fill(self, partition: bytes) -> Version:
        self.store.set(partition, b"other", b"old")
        return self.store.set(partition, b"there", b"old")

    def rows(self, partition: bytes) -> list[Item]:
        return list(self.direct.scan(partition))


# Each writes to a partition that holds the keys "other" and "there", the latter of a given version.
Write = Callable[[Store, bytes, Version], object]
WRITES: dict[str, Write] = {
    "set": lambda store, part, _: store.set(part, b"there", b"new"),
    "set_new": lambda store, part, _: store.set(part, b"new", b"new"),
    "set_if": lambda store, part, version: store.set(part, b"there", b"new", version),
    "set_if_absent": lambda store, part, _: store.set(part, b"new", b"new", ABSENT),
    "set_if_exists": lambda store, part, _: store.set(part, b"there", b"new", EXISTS),
    "delete": lambda store, part, _: store.delete(part, b"there"),
    "delete_if": lambda store, part, version: store.delete(part, b"there", version),
    "set_many": lambda store, part, _: store.write(puts(part, [(b"there", b"n"), (b"x", b"n")])),
}
