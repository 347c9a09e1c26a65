"""Interface of the key-value store that contains all mutable metadata of Lakebed.

A store maps ``(partition, key)`` to a value; all three are bytes. A partition is a namespace and
exists while it contains keys. The keys of a partition are ordered bytewise.

**Versions.** Each write stores a new unique version beside the value, chosen by the writer: the
predicate of a later conditional write. A version identifies a write, not its value: after a delete
and a create with the same value, old predicates do not match.

**Three outcomes.** A write returns, raises `PredicateFailed`, or raises `OutcomeUnknown`. The first
two are certain. Arguments are checked before the database is called: after `InvalidArgument` or
`StoreClosed` the store is unchanged.

**No delayed writes.** A write is never applied after its call has failed. (A call that raised
`OutcomeUnknown` itself may have been applied before it raised.)

**Consistency.** `get` and `scan` are linearizable per key: they see every write that returned
before they began.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Final, Literal, NamedTuple, NewType, Self, cast

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import (
    InvalidArgument,
    KeyNotFound,
    LimitExceeded,
    OutcomeUnknown,
    StoreClosed,
    StoreUnavailable,
)

Version = NewType("Version", bytes)
"""Unique id of one write; never reused."""

VERSION_BYTES: Final = 16


class Presence(Enum):
    """Predicates on the presence of a key, rather than on its version."""

    ANY = "any"
    ABSENT = "absent"
    EXISTS = "exists"

    def __repr__(self) -> str:
        return self.name


ANY: Final = Presence.ANY
"""Predicate of an unconditional write."""

ABSENT: Final = Presence.ABSENT
"""Write only if the key does not exist."""

EXISTS: Final = Presence.EXISTS
"""Write only if the key exists."""

Predicate = Version | Presence
DeletePredicate = Version | Literal[Presence.ANY]


def new_version(runtime: Runtime) -> Version:
    """Draw the version of a write."""
    return Version(runtime.random_bytes(VERSION_BYTES))


def check_predicate(predicate: object) -> None:
    """Reject a value that is not a predicate of `Store.set`, such as None."""
    if isinstance(predicate, Presence):
        return
    if not isinstance(predicate, bytes) or len(predicate) != VERSION_BYTES:
        raise InvalidArgument(
            "the predicate must be the version of an item, or ANY (for writes also ABSENT or"
            f" EXISTS), not {_shown(predicate)}"
        )


def check_deletable(predicate: object) -> None:
    """Reject a value that is not a predicate of `Store.delete`, such as `ABSENT`."""
    if predicate is not ANY:
        check_predicate(None if isinstance(predicate, Presence) else predicate)


def _shown(predicate: object) -> str:
    if isinstance(predicate, bytes):
        return f"{len(predicate)} bytes"
    return "nothing" if predicate is None else type(predicate).__name__


def holds(predicate: Predicate, version: bytes | None) -> bool:
    """Return whether a predicate holds for a key with this version; None: a missing key."""
    if isinstance(predicate, Presence):
        return predicate is ANY or (version is None) == (predicate is ABSENT)
    return version == predicate


class Item(NamedTuple):
    """A key with its value and version."""

    key: bytes
    value: bytes
    predicate: Version


item_of_row = cast("Callable[[tuple[object, ...]], Item]", partial(tuple.__new__, Item))
"""Like `Item._make`, without a Python frame per row."""

Pair = tuple[bytes, bytes]
"""A key with its value, for reads without a later conditional write."""


class Put(NamedTuple):
    """One write of `Store.write`; the fields are the arguments of `Store.set`."""

    partition: bytes
    key: bytes
    value: bytes
    predicate: Predicate = ANY
    version: Version | None = None


def puts(partition: bytes, values: Iterable[tuple[bytes, bytes]]) -> list[Put]:
    """Return unconditional writes of several keys to one partition."""
    return [Put(partition, key, value) for key, value in values]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest partition, key and value that a driver accepts."""

    partition_bytes: int
    key_bytes: int
    value_bytes: int

    def check(self, partition: bytes, key: bytes, value: bytes = b"") -> None:
        """Reject arguments that exceed the limits.

        Raises:
            InvalidArgument: The partition or key is empty, or an argument is not bytes.
            LimitExceeded: The partition, key or value is too large.
        """
        if (
            type(partition) is type(key) is type(value) is bytes
            and 0 < len(partition) <= self.partition_bytes
            and 0 < len(key) <= self.key_bytes
            and len(value) <= self.value_bytes
        ):
            return
        _check_part("partition", partition, self.partition_bytes)
        _check_part("key", key, self.key_bytes)
        _check_part("value", value, self.value_bytes, may_be_empty=True)

    def check_keys(self, keys: Sequence[tuple[bytes, bytes]]) -> None:
        """Reject partitions and keys that exceed the limits; raises as `check`."""
        partition_bytes, key_bytes = self.partition_bytes, self.key_bytes
        for partition, key in keys:
            # Inline the common case: this avoids a function call per key.
            if not (
                type(partition) is type(key) is bytes
                and 0 < len(partition) <= partition_bytes
                and 0 < len(key) <= key_bytes
            ):
                self.check(partition, key)

    def check_partition(self, partition: bytes) -> None:
        """Reject a partition that exceeds the limits; raises as `check`."""
        _check_part("partition", partition, self.partition_bytes)


def _check_part(name: str, part: object, limit: int, *, may_be_empty: bool = False) -> None:
    if not isinstance(part, bytes):
        raise InvalidArgument(f"{name} must be bytes, not {type(part).__name__}")
    if not part and not may_be_empty:
        raise InvalidArgument(f"{name} must not be empty")
    if len(part) > limit:
        raise LimitExceeded(f"{name} has {len(part)} bytes; the limit of this store is {limit}")


# Page sizes of a scan: small at first, since many callers want few items; then larger, since each
# page costs a round trip; bounded, so that Python's garbage collector, which runs after 700 new
# objects, does not traverse each page several times; smaller again after a page of large values.
FIRST_PAGE: Final = 32
LARGEST_PAGE: Final = 512
LARGEST_LIMITED_PAGE: Final = 1024
"""Largest first page of a scan with a limit."""
PAGE_BYTES: Final = 4 << 20

NAMESPACE_MARK: Final = b"\x00"
"""Prefix reserved for the partitions of namespaces."""

PARTITIONS_PAGE: Final = 200
"""Approximate number of partitions in a page."""

_value_of = itemgetter(1)


def after_prefix(prefix: bytes) -> bytes:
    """Return the smallest bytes greater than all keys with a prefix, or empty bytes if none exist.

    Trailing bytes 255 have no successor and are removed first.
    """
    shortened = prefix.rstrip(b"\xff")
    return shortened[:-1] + bytes([shortened[-1] + 1]) if shortened else b""


def _pages(
    read: Callable[[bytes, int, bytes | None], list[Item]],
    start: bytes,
    limit: int | None,
    end: bytes | None,
) -> Iterator[list[Item]]:
    size = FIRST_PAGE if limit is None else min(limit, LARGEST_LIMITED_PAGE)
    while size:
        page = read(start, size, end)
        yield page
        if len(page) < size:
            return
        if limit is not None:
            limit -= size
        # The immediate successor of the last key.
        start = page[-1].key + b"\x00"
        page_bytes = sum(map(len, map(_value_of, page)))
        fitting = PAGE_BYTES * size // (page_bytes + 1) + 1
        size = min(size * 4, LARGEST_PAGE, fitting)
        if limit is not None:
            size = min(size, limit)


@contextmanager
def applied_before(*, any_step: bool) -> Iterator[None]:
    """Convert the errors of one step of a multi-step call; `any_step`: an earlier step was applied.

    After an applied step, an error that means "nothing changed" no longer holds for the call.

    Raises:
        OutcomeUnknown: Instead of `StoreUnavailable` or `StoreClosed`, if a step was applied.
    """
    try:
        yield
    except (StoreUnavailable, StoreClosed) as error:
        if not any_step:
            raise
        unknown = OutcomeUnknown(f"the call was applied in part: {error}")
        if isinstance(error, StoreUnavailable):
            unknown.public_message = f"{error.reason}; the change may or may not have been applied"
        raise unknown from error


@contextmanager
def still_unknown(error: OutcomeUnknown) -> Iterator[None]:
    """Raise `error` if reading back the outcome of a write fails, too.

    The error of the read itself would mean "nothing changed", which holds for the read only.

    Raises:
        OutcomeUnknown: `error`, instead of `StoreUnavailable` or `StoreClosed`.
    """
    try:
        yield
    except (StoreUnavailable, StoreClosed) as unanswered:
        raise error from unanswered


class Store(ABC):
    """Interface that drivers and wrappers implement.

    A store is thread-safe. After a ``fork``, a store shared between processes counts as closed in
    the child process: each process opens its own.

    Besides the errors listed by each method, every call raises `StoreClosed` if the store is
    closed, `InvalidArgument` (or `LimitExceeded`) if an argument is rejected before the database is
    called, and `StoreUnavailable` if the database cannot be reached; writes also raise `StoreFull`.
    """

    name: str
    """Driver name, as in the URL."""

    limits: Limits
    """The largest partition, key and value; checked before every call."""

    shared_between_processes: bool
    """Whether other processes that open the same URL see the same data."""

    _runtime: Runtime

    @abstractmethod
    def get(self, partition: bytes, key: bytes) -> Item:
        """Return the item of a key.

        Raises:
            KeyNotFound: The key does not exist.
        """

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        """Write a value if the predicate holds; return the version of the write.

        Pass `version` to recognize the write later; by default the store draws one.

        Raises:
            PredicateFailed: The predicate does not hold; nothing was written.
            OutcomeUnknown: The write may have been applied; it will not be applied later.
        """
        version = version or new_version(self._runtime)
        self.write([Put(partition, key, value, predicate, version)])
        return version

    @abstractmethod
    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        """Delete a key if its version matches; with `ANY`, if it exists.

        Raises:
            PredicateFailed: The key was overwritten or deleted; nothing was deleted.
            OutcomeUnknown: The key may have been deleted; it will not be deleted later.
        """

    @abstractmethod
    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        """Return the first `limit` items from `start` (included) to `end` (excluded), in key order.

        Implemented by drivers; callers use `scan`. A page shorter than `limit` means that no
        further keys exist in the range.
        """

    @abstractmethod
    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        """Return a page of partitions and the next cursor, or None after the last page.

        Implemented by drivers; callers use `partitions`. The first cursor is empty; later cursors
        are opaque. Every partition that contains a key during the whole iteration is returned at
        least once, in any order. Duplicates, empty pages and partitions without keys are allowed.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the resources; all later calls except `close` raise `StoreClosed`."""

    def scan(
        self,
        partition: bytes,
        start: bytes = b"",
        *,
        prefix: bytes = b"",
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Iterate over the items of a partition in key order, from `start` (included).

        With a `prefix`, only the keys with this prefix are read.

        At most `limit` items are returned; the limit also sizes the first page. Page sizes grow. No
        snapshot or lock is held between pages: keys may be written and deleted during the scan,
        also by the caller. A key that exists during the whole scan is returned exactly once; a key
        created or deleted during the scan at most once.
        """
        self.limits.check_partition(partition)
        if not isinstance(start, bytes):
            raise InvalidArgument(f"start must be bytes, not {type(start).__name__}")
        if not isinstance(prefix, bytes):
            raise InvalidArgument(f"prefix must be bytes, not {type(prefix).__name__}")
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit must be 0 or more, not {limit}")
        read = partial(self.scan_page, partition)
        pages = _pages(read, max(start, prefix), limit, after_prefix(prefix) or None)
        # Not a generator over single items: that took a sixth of the time of a long scan.
        return chain.from_iterable(pages)

    def partitions(self) -> Iterator[bytes]:
        """Iterate over the partitions, each once, unordered; a partition may be empty.

        A partition that contains a key during the whole iteration is returned; a partition created
        or emptied meanwhile may be missing. Partitions of namespaces are excluded, unless this
        store is that namespace. On some databases this is a full scan: for tools, not for requests.
        """
        seen: set[bytes] = set()
        cursor: bytes | None = b""
        while cursor is not None:
            page, cursor = self.partition_page(cursor)
            for partition in page:
                if partition not in seen and not partition.startswith(NAMESPACE_MARK):
                    seen.add(partition)
                    yield partition

    # Batched calls: by default one call per key; drivers override them with a single request.

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        """Return the items of many ``(partition, key)`` pairs, in order; None for a missing key.

        Not a snapshot: the items are read in this order or at one moment, so no item is older than
        the items before it.
        """
        return [self._get_or_none(partition, key) for partition, key in keys]

    def _get_or_none(self, partition: bytes, key: bytes) -> Item | None:
        try:
            return self.get(partition, key)
        except KeyNotFound:
            return None

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        """Apply writes as by `set`, then read keys as by `get_many`.

        Not atomic: other callers may see a part of the writes, and may write between them.
        Unconditional writes are applied in any order; of equal keys the last value wins. If one of
        several writes has a predicate, all are applied in order up to the first predicate that does
        not hold. The reads see all of the writes, or later ones.

        Databases that support it run several writes and reads in one transaction or request.

        Raises:
            PredicateFailed: The predicate of the write named by the error does not hold. This write
                and later ones were not applied; earlier ones were. After a single write nothing was
                written.
            InvalidArgument: An argument is rejected; nothing was written.
            OutcomeUnknown: Any of the writes may have been applied; none will be applied later.
        """
        for put in writes:
            self.limits.check(put.partition, put.key, put.value)
            check_predicate(put.predicate)
        self.limits.check_keys(reads)
        if len(writes) > 1 and all(put.predicate is ANY for put in writes):
            self._set_all(writes)
        else:
            self._set_each(writes)
        if not reads:
            return []
        with applied_before(any_step=bool(writes)):
            return self.get_many(reads)

    def _set_each(self, writes: Sequence[Put]) -> None:
        applied = False
        for put in writes:
            with applied_before(any_step=applied):
                self._set(put)
            applied = True

    def _set(self, put: Put) -> None:
        """Apply one checked write; called by `write`, which drivers may override instead."""
        raise NotImplementedError

    def _set_all(self, writes: Sequence[Put]) -> None:
        """Apply several checked, unconditional writes; called by `write`.

        Overridden by drivers whose database takes several writes in one request.
        """
        self._set_each(writes)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        """Remove the tombstones among about `limit` keys at or after `start` and before `end`.

        Only for keys without recent writes and without readers: a create delayed beyond that may
        still be applied. A no-op for databases without tombstones, or with automatic removal.

        Returns:
            The key to continue from, or None if no tombstones remain.

        Raises:
            OutcomeUnknown: Tombstones may remain; another call removes them.
        """
        del partition, start, limit, end
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
