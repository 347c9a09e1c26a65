"""The calls of the interface as commands and scripts."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import valkey

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import check_durable
from lakebed.kv.drivers.valkey.link import (
    RedirectedError,
    ValkeyPool,
    ValkeyTimeouts,
    ask,
    follow,
    parse_url,
    run_script,
)
from lakebed.kv.drivers.valkey.nodes import PREFIX, Use, ValkeyNodes
from lakebed.kv.errors import (
    ForeignStore,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreFull,
    StoreUnavailable,
    UnsafeStore,
)
from lakebed.kv.lifetime import Lifetime, closing_on_error
from lakebed.kv.store import (
    ANY,
    PARTITIONS_PAGE,
    VERSION_BYTES,
    DeletePredicate,
    Item,
    Limits,
    Presence,
    Put,
    Store,
    Version,
    applied_before,
    check_deletable,
    new_version,
)

LATE: Final = "LAKEBED_LATE"
"""Prefix of the error for a missed deadline."""

_IN_TIME: Final = f"""
local now = redis.call('TIME')
if now[1] * 1000000 + now[2] > tonumber(ARGV[1]) then
  return redis.error_reply('{LATE} the write came after its deadline')
end
"""

# A hash field contains the version, 16 bytes, followed by the value.
_SET: Final = (
    _IN_TIME
    + """
local there = redis.call('HGET', KEYS[1], ARGV[2])
local condition = ARGV[4]
if condition == 'absent' and there then return 0 end
if condition == 'exists' and not there then return 0 end
if condition == 'version' and not (there and string.sub(there, 1, 16) == ARGV[5]) then return 0 end
if not there then redis.call('ZADD', KEYS[2], 0, ARGV[2]) end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
"""
)

_SET_MANY: Final = (
    _IN_TIME
    + """
for place = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[2], 0, ARGV[place])
  redis.call('HSET', KEYS[1], ARGV[place], ARGV[place + 1])
end
return 1
"""
)

_DELETE: Final = (
    _IN_TIME
    + """
local there = redis.call('HGET', KEYS[1], ARGV[2])
if ARGV[3] ~= '' and not (there and string.sub(there, 1, 16) == ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[2])
return 1
"""
)

_SCAN: Final = """
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
if #keys == 0 then return {keys, {}} end
return {keys, redis.call('HMGET', KEYS[1], unpack(keys))}
"""


CHUNK_KEYS: Final = 500
CHUNK_BYTES: Final = 8 << 20
_SETTINGS: Final = {
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
}

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a Valkey or Redis server; see `lakebed.kv.open_store`."""
    return ValkeyStore(url, runtime)


class ValkeyStore(Store):
    """Hashes and sorted sets of a server. Raises as `lakebed.kv.open_store`."""

    name = "valkey"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=16 << 20)
    shared_between_processes = True

    def __init__(
        self, url: str, runtime: Runtime, *, timeouts: ValkeyTimeouts | None = None
    ) -> None:
        address = parse_url(url)
        self._runtime = runtime
        self._timeouts = timeouts or ValkeyTimeouts()
        self._nodes = ValkeyNodes(address, self._timeouts, runtime)
        self._lifetime = Lifetime(runtime, self._nodes.close, limits=self.limits, shared=True)
        with closing_on_error(self.close):
            self._nodes.open(partial(self._check, trusted=address.trusted))

    def get(self, partition: bytes, key: bytes) -> Item:
        self._lifetime.begin(partition, key)
        name = self._nodes.names(partition)[0]
        stored = self._read(partition, lambda link: ask(link, "HGET", name, key))
        if stored is None:
            raise KeyNotFound(partition, key)
        return _item(key, stored)

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        with self._lifetime.call(partition, key, value):
            version = version or new_version(self._runtime)
            if isinstance(predicate, Presence):
                condition, wanted = predicate.value.encode(), b""
            else:
                condition, wanted = b"version", predicate
            if not self._write(_SET, partition, key, version + value, condition, wanted):
                raise PredicateFailed(partition, key)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            wanted = predicate if isinstance(predicate, bytes) else b""
            if not self._write(_DELETE, partition, key, wanted):
                raise PredicateFailed(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        with self._lifetime.call(partition):
            first = b"[" + start if start else b"-"
            last = b"+" if end is None else b"(" + end
            arguments = [first, last, b"%d" % limit]
            names = self._nodes.names(partition)
            keys, values = self._read(
                partition, lambda link: run_script(link, _SCAN, names, arguments)
            )
        return [_item(key, stored) for key, stored in zip(keys, values, strict=True)]

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        prefix, suffix = self._nodes.hashes
        with self._lifetime.call(b"any"):
            if not cursor:
                cursor = b"0 0 " + self._nodes.learn()
            number, position, state = cursor.split(b" ")
            pools = self._nodes.primaries()
            node = min(int(number), len(pools) - 1)
            with pools[node].reading() as link:
                match = ("MATCH", prefix + b"*" + suffix, "COUNT", b"%d" % PARTITIONS_PAGE)
                position, names = ask(link, "SCAN", position, *match)
                if self._nodes.state(link) != state:
                    raise StoreUnavailable("slots were migrated: list the partitions again")
        partitions = [name.removeprefix(prefix).removesuffix(suffix) for name in names]
        node += position == b"0"
        return partitions, None if node == len(pools) else b"%d %b %b" % (node, position, state)

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        for partition, key in keys:
            self._lifetime.check(partition, key)
        items: list[Item | None] = []
        for begin in range(0, len(keys), CHUNK_KEYS):
            chunk = keys[begin : begin + CHUNK_KEYS]
            for _, places in groupby(chunk, lambda place: self._nodes.pool_of(place[0])):
                items += self._get_chunk(list(places))
        return items

    def _set_all(self, writes: Sequence[Put]) -> None:
        """Write several values, in atomic chunks of one partition."""
        applied = False
        for partition in dict.fromkeys(put.partition for put in writes):
            of_partition = [put for put in writes if put.partition == partition]
            for chunk in self._lifetime.chunks(
                of_partition, keys_max=CHUNK_KEYS, bytes_max=CHUNK_BYTES
            ):
                arguments = [
                    part
                    for _, key, value, _, version in chunk
                    for part in (key, (version or new_version(self._runtime)) + value)
                ]
                with self._lifetime.call(partition), applied_before(any_step=applied):
                    self._write(_SET_MANY, partition, *arguments)
                applied = True

    def _read(self, partition: bytes, call: Callable[[Any], Any]) -> Any:
        """Run a call that changes nothing at the node of a partition."""

        def read(pool: ValkeyPool, use: Use) -> Any:
            with pool.reading() as link:
                return call(use(link))

        return self._nodes.at(partition, read)

    def close(self) -> None:
        self._lifetime.close()

    def _check(self, pool: ValkeyPool, *, trusted: bool) -> None:
        """Reject a server that may lose acknowledged writes, or has unreadable records."""
        if not trusted:
            self._check_durability(pool)
        position = b"0"
        with pool.reading() as link:
            while True:
                match = ("MATCH", PREFIX + b"*", "COUNT", b"%d" % PARTITIONS_PAGE)
                position, names = ask(link, "SCAN", position, *match)
                if any(map(self._nodes.is_foreign, names)):
                    has, other = ("on", "off") if self._nodes.is_cluster else ("off", "on")
                    raise ForeignStore(
                        f"the server has cluster mode {has}, and records written with cluster mode"
                        f" {other}: use the mode of the records, and copy them by lakebed kv copy"
                    )
                if names or position == b"0":  # one key decides: no store has keys of both modes
                    return

    @staticmethod
    def _check_durability(pool: ValkeyPool) -> None:
        """Reject a server that may lose acknowledged writes."""
        with pool.reading() as link:
            replication = ask(link, "INFO", "replication").decode()
            found = {}
            for name in _SETTINGS:
                try:
                    answer = ask(link, "CONFIG", "GET", name)
                except valkey.ResponseError as error:
                    raise UnsafeStore(
                        f"cannot read the settings of the server ({error}): add ?durable=true if"
                        " the service is durable by other means"
                    ) from error
                found[name] = answer[1].decode() if answer else "not set"
        info = dict(line.split(":", 1) for line in replication.splitlines() if ":" in line)
        wrong = []
        if info.get("role") != "master":
            wrong.append("it is a replica")
        if int(info.get("connected_slaves", "0")):
            wrong.append("it has replicas, which are asynchronous")
        check_durable(found, _SETTINGS, others=wrong)

    def _get_chunk(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        """Read keys of a node: pipelined, and answered in order."""
        commands = [("HGET", self._nodes.names(of)[0], key) for of, key in keys]

        try:
            with (
                self._lifetime.call(*keys[0]),
                self._nodes.pool_of(keys[0][0]).reading() as link,
            ):
                link.send_packed_command(link.pack_commands(commands))
                found = [link.read_response() for _ in keys]
        except RedirectedError:
            return [self._get_or_none(*place) for place in keys]
        return [
            None if stored is None else _item(key, stored)
            for (_, key), stored in zip(keys, found, strict=True)
        ]

    def _write(self, script: str, partition: bytes, *arguments: bytes) -> bool:
        """Run a writing script; return whether its condition held.

        Raises:
            StoreUnavailable: Nothing was applied, or will be.
            OutcomeUnknown: The write may have been applied, but will not be applied later.
        """
        names = self._nodes.names(partition)

        def write(pool: ValkeyPool, use: Use) -> bool:
            return self._write_at(pool, use, script, names, arguments)

        return self._nodes.at(partition, write)

    def _write_at(
        self,
        pool: ValkeyPool,
        use: Use,
        script: str,
        names: list[bytes],
        arguments: Sequence[bytes],
    ) -> bool:
        link = pool.take()
        answered = False
        try:
            deadline = pool.deadline(link)
            # Computed after the deadline, so that a pause in between only makes the wait longer.
            settled_at = self._runtime.monotonic() + self._timeouts.settled_seconds
            arguments = [b"%d" % deadline, *arguments]
            is_met = self._run(use(link), script, names, arguments, settled_at)
            answered = True
            return is_met
        finally:
            if not answered:
                link.disconnect()  # even after a refusal: the next one reads the clock again
            pool.give_back(link)

    def _run(
        self,
        link: object,
        script: str,
        names: Sequence[bytes],
        arguments: Sequence[bytes],
        settled_at: float,
    ) -> bool:
        try:
            return bool(run_script(link, script, names, arguments))
        except valkey.ResponseError as error:
            follow(error)
            kind = StoreFull if "OOM" in str(error) else StoreUnavailable
            raise kind(f"the server refused the write: {error}") from error
        except valkey.ValkeyError as error:
            _LOGGER.warning("lost the reply to a write: %s", str(error))
            self._wait_until(settled_at)
            raise OutcomeUnknown(
                f"the outcome of a write to the server is unknown: {error}"
            ) from error
        except BaseException:
            # Ctrl-C, or a signal handler that raises: the write must not be applied later.
            self._wait_until(settled_at)
            raise

    def _wait_until(self, settled_at: float) -> None:
        while (left := settled_at - self._runtime.monotonic()) > 0:
            self._runtime.sleep(left)


def _item(key: bytes, stored: bytes) -> Item:
    return Item(key, stored[VERSION_BYTES:], Version(stored[:VERSION_BYTES]))
