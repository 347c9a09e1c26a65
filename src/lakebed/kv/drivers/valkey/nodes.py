"""The nodes of a server: the server itself, or the primaries of a cluster.

All keys of a partition are in one slot. A node answers a command for the slot of another node by a
redirection, and changes nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha1
from typing import Any, Final, TypeVar

import valkey
from valkey.connection import Connection
from valkey.crc import key_slot

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.valkey.link import (
    RedirectedError,
    ValkeyAddress,
    ValkeyPool,
    ValkeyTimeouts,
    ask,
)
from lakebed.kv.errors import StoreClosed, StoreUnavailable, StoreUnreachable

ResultT = TypeVar("ResultT")
Node = tuple[str, int]
"""Host and port."""

REDIRECTIONS_MAX: Final = 8
PREFIX: Final = b"lakebed:"
_HASHES: Final = PREFIX + b"h:"
_TAGGED: Final = PREFIX + b"{p"
"""Begins a hash tag, of which the server takes the slot; never empty, and the same in both names of
a partition, even if the partition contains braces."""


class Asking:
    """A connection that sends ASKING before each command, for a slot that is being imported."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send_command(self, *command: str | bytes) -> None:
        """Send a command after ASKING."""
        ask(self._connection, "ASKING")
        self._connection.send_command(*command)

    def read_response(self) -> Any:
        """Return the reply of the command."""
        return self._connection.read_response()


Use = Callable[[Connection], Connection | Asking]
"""Returns the connection for the commands of a call."""


class ValkeyNodes:
    """Connection pools of all nodes, and the node of each slot."""

    def __init__(self, address: ValkeyAddress, timeouts: ValkeyTimeouts, runtime: Runtime) -> None:
        self._address = address
        self._timeouts = timeouts
        self._runtime = runtime
        self._first: Node = (str(address.settings["host"]), int(str(address.settings["port"])))
        self._pools = {self._first: ValkeyPool(address, timeouts, runtime)}
        self._slots: dict[int, Node] = {}
        self._closed = False
        self._check: Callable[[ValkeyPool], None] = lambda _: None
        self.is_cluster = False

    def open(self, check: Callable[[ValkeyPool], None]) -> None:
        """Find the nodes, and check each of them; nodes found later are checked, too."""
        answer = b""
        first = self._pools[self._first]
        with first.reading() as link, suppress(valkey.ResponseError):  # no permission
            answer = ask(link, "INFO", "cluster")
        self.is_cluster = b"cluster_enabled:1" in answer
        if self.is_cluster:
            self._learn(first)
            if not self._slots:
                raise StoreUnavailable("no node of the cluster has slots: finish its setup")
        for pool in self.primaries():
            check(pool)
        self._check = check

    def primaries(self) -> list[ValkeyPool]:
        """Return the pools of all nodes with slots."""
        if not self.is_cluster:
            return [self._pools[self._first]]
        return [self._pool(node) for node in sorted(set(self._slots.values()))]

    def at(self, partition: bytes, call: Callable[[ValkeyPool, Use], ResultT]) -> ResultT:
        """Run a call at the node of a partition; repeat it where the node redirects it."""
        if not self.is_cluster:
            return call(self._pools[self._first], _plain)
        slot = self._slot(partition)
        node, use = self._slots.get(slot, self._first), _plain
        for _ in range(REDIRECTIONS_MAX):
            try:
                return call(self._pool(node), use)
            except RedirectedError as error:
                node = (_host(error.host) or node[0], error.port)
                use = Asking if error.is_temporary else _plain
                if not error.is_temporary:
                    self._slots[slot] = node
            except StoreUnreachable:
                self._relearn(node)
                raise
        raise StoreUnavailable(f"the nodes of the cluster disagree about slot {slot}")

    def pool_of(self, partition: bytes) -> ValkeyPool:
        """Return the pool of a partition's node, as far as known."""
        if not self.is_cluster:
            return self._pools[self._first]
        return self._pool(self._slots.get(self._slot(partition), self._first))

    def names(self, partition: bytes) -> list[bytes]:
        """Return the names of a partition's hash and sorted set."""
        if self.is_cluster:
            return [_TAGGED + partition + b"}h", _TAGGED + partition + b"}z"]
        return [_HASHES + partition, PREFIX + b"z:" + partition]

    @property
    def hashes(self) -> tuple[bytes, bytes]:
        """Prefix and suffix of the names of hashes."""
        return (_TAGGED, b"}h") if self.is_cluster else (_HASHES, b"")

    def is_foreign(self, name: bytes) -> bool:
        """Return whether a key of Lakebed was written in the other mode of the server."""
        return name.startswith(_TAGGED) != self.is_cluster

    def learn(self) -> bytes:
        """Read the nodes of the slots; return the state of the cluster before that."""
        if not self.is_cluster:
            return b""
        first = self.primaries()[0]
        with first.reading() as link:
            state = self.state(link)
        self._learn(first)
        return state

    def state(self, link: Connection) -> bytes:
        """Return a digest of the slots of all nodes, as a node sees them; empty without a cluster.

        Raises:
            StoreUnavailable: Slots of this node are being migrated.
        """
        if not self.is_cluster:
            return b""
        lines = [line.split() for line in ask(link, "CLUSTER", "NODES").splitlines()]
        if any(slot.startswith(b"[") for line in lines for slot in line[8:]):
            raise StoreUnavailable("slots are being migrated: list the partitions when it ended")
        slots = repr(sorted((line[0], line[8:]) for line in lines if line[8:]))
        return sha1(slots.encode(), usedforsecurity=False).hexdigest().encode()

    def _slot(self, partition: bytes) -> int:
        slot: int = key_slot(self.names(partition)[0])
        return slot

    def close(self) -> None:
        """Close all pools."""
        self._closed = True
        for pool in list(self._pools.values()):
            pool.close()

    def _pool(self, node: Node) -> ValkeyPool:
        pool = self._pools.get(node)
        if pool is None:
            if self._closed:
                raise StoreClosed
            settings = self._address.settings | {"host": node[0], "port": node[1]}
            pool = ValkeyPool(
                replace(self._address, settings=settings), self._timeouts, self._runtime
            )
            self._check(pool)
            pool = self._pools.setdefault(node, pool)
        return pool

    def _learn(self, pool: ValkeyPool) -> None:
        with pool.reading() as link:
            ranges = ask(link, "CLUSTER", "SLOTS")
        self._slots = {
            slot: (_host(host) or str(link.host), port)
            for first, last, (host, port, *_), *_ in ranges
            for slot in range(first, last + 1)
        }

    def _relearn(self, lost: Node) -> None:
        """Read the nodes of the slots from any node but a lost one, which may be replaced."""
        for node, pool in list(self._pools.items()):
            if node != lost:
                with suppress(StoreUnavailable):
                    self._learn(pool)
                    return


def _plain(connection: Connection) -> Connection:
    return connection


def _host(announced: bytes | None) -> str | None:
    """Return the announced host of a node, or None for the host of the replying node."""
    return None if announced in {None, b"", b"?"} else announced.decode()
