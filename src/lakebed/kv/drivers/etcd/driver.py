"""The calls of the interface as transactions of etcd."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.etcd.gateway import (
    REPLY_SECONDS,
    EtcdGateway,
    Json,
    decode,
    encode,
    parse_url,
)
from lakebed.kv.errors import (
    ForeignStore,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreUnavailable,
    UnsafeStore,
)
from lakebed.kv.fenced import FENCE_SECONDS, end_process
from lakebed.kv.lifetime import Lifetime, closing_on_error
from lakebed.kv.store import (
    ABSENT,
    ANY,
    EXISTS,
    PARTITIONS_PAGE,
    VERSION_BYTES,
    DeletePredicate,
    Item,
    Limits,
    Predicate,
    Put,
    Store,
    Version,
    after_prefix,
    applied_before,
    check_deletable,
    new_version,
)

TRANSACTION_KEYS: Final = 100
"""etcd accepts 128 operations in a transaction."""
TRANSACTION_BYTES: Final = 1 << 20
PAGE_BYTES: Final = 3 << 20
LEASE_SECONDS: Final = 24 * 3600
SESSION_SECONDS: Final = 12 * 3600.0
"""A session is replaced long before its lease ends."""
PAUSE_SECONDS: Final = 0.2
SYNC_SECONDS: Final = 2.0
"""How long a member may take to flush a write already flushed by a majority of the others."""

_DATA: Final = b"d"
_SESSIONS: Final = b"s"
_NOTHING: Final = b"n"
"""A key that never exists."""
_LENGTH_BYTES: Final = 2
# After the version, so that the stored bytes exceed the version even if the value is empty.
_SEPARATOR: Final = b"\x01"
_HEAD: Final = VERSION_BYTES + len(_SEPARATOR)

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in an etcd cluster; see `lakebed.kv.open_store`."""
    return EtcdStore(url, runtime)


@dataclass(slots=True)
class _Session:
    """A key whose value is compared by every write of the session."""

    key: bytes
    epoch: bytes
    made_at: float


class EtcdStore(Store):
    """The keys below a prefix of an etcd cluster. Raises as `lakebed.kv.open_store`.

    `give_up` ends the process; it is called when a lost write cannot be fenced.
    """

    name = "etcd"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=1 << 20)
    shared_between_processes = True

    def __init__(
        self,
        url: str,
        runtime: Runtime,
        *,
        reply_seconds: float = REPLY_SECONDS,
        give_up: Callable[[], NoReturn] = end_process,
    ) -> None:
        address = parse_url(url)
        self._runtime = runtime
        self._give_up = give_up
        self._prefix = address.prefix + b"/"
        self._gateway = EtcdGateway(address, reply_seconds=reply_seconds)
        self._sessions: list[_Session] = []
        self._lifetime = Lifetime(runtime, self._gateway.close, limits=self.limits, shared=True)
        with closing_on_error(self.close):
            self._check_cluster()
            if not address.trusted:
                self._check_durability()

    def get(self, partition: bytes, key: bytes) -> Item:
        (item,) = self.get_many([(partition, key)])
        if item is None:
            raise KeyNotFound(partition, key)
        return item

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        with self._lifetime.call(partition, key, value):
            version = version or new_version(self._runtime)
            conditions = _conditions(self._key(partition, key), predicate)
            if not self._write(conditions, [self._put(partition, key, value, version)]):
                raise PredicateFailed(partition, key)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            name = self._key(partition, key)
            if not self._write(_conditions(name, predicate), [_delete(name)]):
                raise PredicateFailed(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        with self._lifetime.call(partition):
            return self._scan(partition, start, limit, end)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # Skip scan: the first key gives the partition; the next partition begins after its prefix.
        data = self._prefix + _DATA
        start, end = cursor or data, _successor(data)
        page: list[bytes] = []
        with self._lifetime.call(b"any"):
            while len(page) < PARTITIONS_PAGE:
                body = {"key": encode(start), "range_end": encode(end), "limit": "1"}
                reply = self._gateway.read("/v3/kv/range", body | {"keys_only": True})
                found = reply.get("kvs", [])
                if not found:
                    return page, None
                rest = decode(found[0]["key"])[len(data) :]
                length = int.from_bytes(rest[:_LENGTH_BYTES], "big")
                page.append(rest[_LENGTH_BYTES : _LENGTH_BYTES + length])
                start = _successor(self._key(page[-1], b""))
        return page, start

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        for partition, key in keys:
            self._lifetime.check(partition, key)
        items: list[Item | None] = []
        for begin in range(0, len(keys), TRANSACTION_KEYS):
            chunk = keys[begin : begin + TRANSACTION_KEYS]
            steps = [{"request_range": {"key": encode(self._key(*pair))}} for pair in chunk]
            with self._lifetime.call(*chunk[0]):
                replies = self._gateway.read("/v3/kv/txn", {"success": steps})["responses"]
            for (_, key), reply in zip(chunk, replies, strict=True):
                found = reply["response_range"].get("kvs", [])
                items.append(_item(key, found[0]) if found else None)
        return items

    def _set_all(self, writes: Sequence[Put]) -> None:
        applied = False
        chunks = self._lifetime.chunks(
            writes, keys_max=TRANSACTION_KEYS, bytes_max=TRANSACTION_BYTES
        )
        for chunk in chunks:
            puts = [
                self._put(partition, key, value, version or new_version(self._runtime))
                for partition, key, value, _, version in chunk
            ]
            with self._lifetime.call(chunk[0].partition), applied_before(any_step=applied):
                self._write([], puts)
            applied = True

    def close(self) -> None:
        self._lifetime.close()

    def _check_cluster(self) -> None:
        status = self._gateway.read("/v3/maintenance/status", {})
        if not status.get("leader"):
            raise StoreUnavailable("the etcd cluster has no leader: check its members")
        major, minor = (int(part) for part in status["version"].split(".")[:2])
        if (major, minor) < (3, 4):
            raise ForeignStore(f"etcd {status['version']} is too old: 3.4 or newer is required")

    def _check_durability(self) -> None:
        """Reject members that acknowledge a write before it is flushed to disk."""
        before = self._gateway.count_syncs()
        give_up_at = self._runtime.monotonic() + SYNC_SECONDS
        while before:
            # Deletes nothing, but is appended to the log of all members.
            self._gateway.read("/v3/kv/deleterange", {"key": encode(self._prefix + _NOTHING)})
            after = self._gateway.count_syncs()
            # A member that no longer answers is not proven to be unsafe.
            before = {each: n for each, n in before.items() if after.get(each) == n}
            if before and self._runtime.monotonic() >= give_up_at:
                raise UnsafeStore(
                    f"etcd at {', '.join(before)} may lose acknowledged writes: it runs with"
                    " --unsafe-no-fsync. Remove the option, or add ?durable=true if the service is"
                    " durable by other means"
                )

    def _key(self, partition: bytes, key: bytes) -> bytes:
        # The length separates partitions of which one is a prefix of the other.
        return b"%b%b%b%b%b" % (
            self._prefix,
            _DATA,
            len(partition).to_bytes(_LENGTH_BYTES, "big"),
            partition,
            key,
        )

    def _put(self, partition: bytes, key: bytes, value: bytes, version: Version) -> Json:
        stored = version + _SEPARATOR + value
        return {"request_put": {"key": encode(self._key(partition, key)), "value": encode(stored)}}

    def _scan(self, partition: bytes, start: bytes, limit: int, end: bytes | None) -> list[Item]:
        base = self._key(partition, b"")
        range_end = _successor(base) if end is None else base + end
        items: list[Item] = []
        # The gateway limits the size of a reply: read large values a few at a time.
        largest = max(1, PAGE_BYTES // self.limits.value_bytes)
        while len(items) < limit:
            wanted = limit - len(items)
            body = {
                "key": encode(base + start),
                "range_end": encode(range_end),
                "limit": str(wanted),
            }
            reply = self._range(body, largest)
            kvs = reply.get("kvs", [])
            items += [_item(decode(kv["key"])[len(base) :], kv) for kv in kvs]
            if not reply.get("more"):
                break
            start = items[-1].key + b"\x00"
        return items

    def _range(self, body: Json, largest: int) -> Json:
        try:
            return self._gateway.read("/v3/kv/range", body)
        except StoreUnavailable as error:
            if "larger than max" not in str(error) or int(body["limit"]) <= largest:
                raise
        return self._gateway.read("/v3/kv/range", body | {"limit": str(largest)})

    def _write(self, conditions: list[Json], steps: list[Json]) -> bool:
        """Apply operations if all conditions hold; return whether they did.

        Raises:
            StoreUnavailable: Nothing was applied, or will be.
            OutcomeUnknown: The operations may have been applied, but will not be applied later.
        """
        session = self._take_session()
        body = {
            "compare": [_equals(session.key, session.epoch), *conditions],
            "success": steps,
            "failure": [{"request_range": {"key": encode(session.key)}}],
        }
        try:
            reply = self._gateway.write("/v3/kv/txn", body)
        except StoreUnavailable:
            self._sessions.append(session)
            raise
        except BaseException as error:
            # Also after Ctrl-C, or a signal handler that raises: the write must not be applied
            # later.
            _LOGGER.warning("lost the reply to a write: %s", str(error))
            self._fence(session)
            self._sessions.append(session)
            raise
        if not reply.get("succeeded"):
            found = reply["responses"][0]["response_range"].get("kvs", [])
            if not found or decode(found[0].get("value")) != session.epoch:
                raise StoreUnavailable("etcd refused a write: its session has expired")
        self._sessions.append(session)
        return bool(reply.get("succeeded"))

    def _take_session(self) -> _Session:
        while self._sessions:
            session = self._sessions.pop()
            if self._runtime.monotonic() - session.made_at < SESSION_SECONDS:
                return session
        made_at = self._runtime.monotonic()
        key = self._prefix + _SESSIONS + self._runtime.random_bytes(VERSION_BYTES)
        session = _Session(key, self._runtime.random_bytes(VERSION_BYTES), made_at)
        # Delayed requests are harmless here: no other session uses this key.
        try:
            lease = self._gateway.write("/v3/lease/grant", {"TTL": str(LEASE_SECONDS)})["ID"]
            put = {"key": encode(key), "value": encode(session.epoch), "lease": lease}
            self._gateway.write("/v3/kv/put", put)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as error:
            raise StoreUnavailable(f"cannot create a session: {error}") from error
        return session

    def _fence(self, session: _Session) -> None:
        """Change the epoch of a session; return when etcd has confirmed the change."""
        give_up_at = self._runtime.monotonic() + FENCE_SECONDS
        epoch = self._runtime.random_bytes(VERSION_BYTES)
        body = {
            "compare": [_equals(session.key, session.epoch)],
            "success": [
                {
                    "request_put": {
                        "key": encode(session.key),
                        "value": encode(epoch),
                        "ignore_lease": True,
                    }
                }
            ],
        }
        while True:
            try:
                # If it did not succeed, an earlier attempt did, or the key has expired with its
                # lease. In both cases the old epoch does not exist any more, and never will.
                self._gateway.write("/v3/kv/txn", body)
            except OutcomeUnknown as error:
                if self._runtime.monotonic() >= give_up_at:
                    _LOGGER.critical(
                        "exiting: no reply to a write, and for %.0f s no confirmation by etcd"
                        " that it can no longer be applied: %s",
                        FENCE_SECONDS,
                        str(error),
                    )
                    self._give_up()
                self._runtime.sleep(PAUSE_SECONDS)
            else:
                session.epoch = epoch
                return


def _item(key: bytes, found: Json) -> Item:
    stored = decode(found.get("value"))
    return Item(key, stored[_HEAD:], Version(stored[:VERSION_BYTES]))


def _conditions(name: bytes, predicate: Predicate) -> list[Json]:
    if predicate is ANY:
        return []
    key = encode(name)
    if predicate is ABSENT or predicate is EXISTS:
        result = "EQUAL" if predicate is ABSENT else "GREATER"
        return [{"key": key, "target": "CREATE", "result": result, "create_revision": "0"}]
    assert isinstance(predicate, bytes)
    # The stored bytes begin with the version, and are longer: they lie between the version and its
    # successor.
    between = [{"key": key, "target": "VALUE", "result": "GREATER", "value": encode(predicate)}]
    above = _successor(predicate)
    if above != b"\x00":
        between.append({"key": key, "target": "VALUE", "result": "LESS", "value": encode(above)})
    return between


def _equals(key: bytes, value: bytes) -> Json:
    return {
        "key": encode(key),
        "target": "VALUE",
        "result": "EQUAL",
        "value": encode(value),
    }


def _delete(key: bytes) -> Json:
    return {"request_delete_range": {"key": encode(key)}}


def _successor(prefix: bytes) -> bytes:
    """Return the smallest bytes greater than all keys with a prefix, or etcd's "no end"."""
    return after_prefix(prefix) or b"\x00"
