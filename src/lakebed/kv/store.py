"""The key-value interface: all mutable metadata of Lakebed goes through these few calls.

A store maps ``(partition, key)`` to a value; all three are bytes. A partition is a namespace that
appears when it is first written. Keys of a partition are ordered as bytes.

**Versions.** Every write stores a fresh unique version beside the value, chosen by the writer. That
version is the predicate of a later conditional write. It stands for one write, never for a content
that may come back: delete and create a key with the same value, and old predicates do not match.

**Three outcomes.** A write returns, raises `PredicateFailed`, or raises `OutcomeUnknown`. The first
two are certain. Arguments are checked first: `InvalidArgument` and `StoreClosed` mean that the
store was never asked.

**No late application.** A write that raised is never applied afterwards. (It may have been applied
before it raised, if it raised `OutcomeUnknown` itself.)

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
from typing import Final, Literal, NamedTuple, NewType, Self

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
"""The mark of one write; never used twice."""

VERSION_BYTES: Final = 16


class Presence(Enum):
    """Predicates on the presence of a key, rather than on one write of it."""

    ANY = "any"
    ABSENT = "absent"
    EXISTS = "exists"

    def __repr__(self) -> str:
        return self.name


ANY: Final = Presence.ANY
"""Write in any case: the predicate of an unconditional write."""

ABSENT: Final = Presence.ABSENT
"""Write only if there is no such key."""

EXISTS: Final = Presence.EXISTS
"""Write only if there is such a key, whatever its value."""

Predicate = Version | Presence
DeletePredicate = Version | Literal[Presence.ANY]


def new_version(runtime: Runtime) -> Version:
    """Draw the mark of a write."""
    return Version(runtime.random_bytes(VERSION_BYTES))


def check_predicate(predicate: object) -> None:
    """Refuse a value that is no predicate of `Store.set`; None above all.

    Raises:
        InvalidArgument: It is not a predicate.
    """
    if isinstance(predicate, Presence):
        return
    if not isinstance(predicate, bytes) or len(predicate) != VERSION_BYTES:
        raise InvalidArgument(
            "the predicate must be the version of an item read or written before, or ANY (or, of a"
            f" write, ABSENT or EXISTS), not {_shown(predicate)}"
        )


def check_deletable(predicate: object) -> None:
    """Refuse a value that is no predicate of `Store.delete`.

    Raises:
        InvalidArgument: It is not a predicate, or is `ABSENT` or `EXISTS`.
    """
    if predicate is not ANY:
        check_predicate(None if isinstance(predicate, Presence) else predicate)


def _shown(predicate: object) -> str:
    if isinstance(predicate, bytes):
        return f"{len(predicate)} bytes"
    return "nothing" if predicate is None else type(predicate).__name__


class Item(NamedTuple):
    """A key with its value, as one write left it."""

    key: bytes
    value: bytes
    predicate: Version


Pair = tuple[bytes, bytes]
"""A key with its value, for who will not write it."""


class Put(NamedTuple):
    """One of the writes of `Store.write`; the arguments are those of `Store.set`."""

    partition: bytes
    key: bytes
    value: bytes
    predicate: Predicate = ANY
    version: Version | None = None


def puts(partition: bytes, values: Iterable[tuple[bytes, bytes]]) -> list[Put]:
    """Return the writes of several keys with their values to one partition."""
    return [Put(partition, key, value) for key, value in values]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest partition, key and value that a driver holds."""

    partition_bytes: int
    key_bytes: int
    value_bytes: int

    def check(self, partition: bytes, key: bytes, value: bytes = b"") -> None:
        """Refuse what the driver could not hold.

        Raises:
            InvalidArgument: An empty partition or key, or something that is not bytes.
            LimitExceeded: One of them is too large.
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
        """Refuse what the driver could not hold, of several keys; raises as `check`."""
        partition_bytes, key_bytes = self.partition_bytes, self.key_bytes
        for partition, key in keys:
            # Nearly always all are fine: then no function is called for each.
            if not (
                type(partition) is type(key) is bytes
                and 0 < len(partition) <= partition_bytes
                and 0 < len(key) <= key_bytes
            ):
                self.check(partition, key)

    def check_partition(self, partition: bytes) -> None:
        """Refuse a partition that the driver could not hold; raises as `check`."""
        _check_part("partition", partition, self.partition_bytes)


def _check_part(name: str, part: object, limit: int, *, may_be_empty: bool = False) -> None:
    if not isinstance(part, bytes):
        raise InvalidArgument(f"{name} must be bytes, not {type(part).__name__}")
    if not part and not may_be_empty:
        raise InvalidArgument(f"{name} must not be empty")
    if len(part) > limit:
        raise LimitExceeded(f"{name} has {len(part)} bytes; this store holds at most {limit}")


# Pages of a scan: small at first, since many callers want few items; then large, since every page
# costs a round trip; never so large that Python's garbage collector, which runs after 700 new
# objects, looks through every page several times; smaller again behind a page of large values.
FIRST_PAGE: Final = 32
LARGEST_PAGE: Final = 512
LARGEST_LIMITED_PAGE: Final = 1024
"""A caller that says how many items it wants gets so many of them in one call."""
PAGE_BYTES: Final = 4 << 20

NAMESPACE_MARK: Final = b"\x00"
"""Begins the partitions of installations that have a namespace; no others begin with it."""

PARTITIONS_PAGE: Final = 200
"""About how many partitions a driver returns in one call."""

_value_of = itemgetter(1)


def after_prefix(prefix: bytes) -> bytes:
    """Return the first bytes after all that begin with a prefix; empty if there are none.

    Trailing bytes 255 have no successor, so they are cut off first.
    """
    shortened = prefix.rstrip(b"\xff")
    return shortened[:-1] + bytes([shortened[-1] + 1]) if shortened else b""


def _pages(
    read: Callable[[bytes, int, bytes | None], list[Item]],
    start: bytes,
    limit: int | None,
    end: bytes | None,
) -> Iterator[list[Item]]:
    """Yield what a scan comes to, page by page."""
    size = FIRST_PAGE if limit is None else min(limit, LARGEST_LIMITED_PAGE)
    while size:
        page = read(start, size, end)
        yield page
        if len(page) < size:
            return
        if limit is not None:
            limit -= size
        # The successor of the last key: no key lies between the two.
        start = page[-1].key + b"\x00"
        page_bytes = sum(map(len, map(_value_of, page)))
        fitting = PAGE_BYTES * size // (page_bytes + 1) + 1
        size = min(size * 4, LARGEST_PAGE, fitting)
        if limit is not None:
            size = min(size, limit)


@contextmanager
def applied_before(*, any_step: bool) -> Iterator[None]:
    """Make a step of a call of several; `any_step` says whether a step before it was applied.

    That this step changed nothing then no longer means that the call changed nothing.

    Raises:
        OutcomeUnknown: Instead of `StoreUnavailable` or `StoreClosed`, if a step was applied.
    """
    try:
        yield
    except (StoreUnavailable, StoreClosed) as error:
        if not any_step:
            raise
        unknown = OutcomeUnknown(f"only the first steps were applied: {error}")
        if isinstance(error, StoreUnavailable):
            unknown.public_message = f"{error.reason}; the change may have been made or not"
        raise unknown from error


@contextmanager
def still_unknown(error: OutcomeUnknown) -> Iterator[None]:
    """Read back the outcome of a write; it stays unknown if the store does not answer this either.

    The error of this read would say that nothing changed, which is true of the read alone.

    Raises:
        OutcomeUnknown: The one given, instead of `StoreUnavailable` or `StoreClosed`.
    """
    try:
        yield
    except (StoreUnavailable, StoreClosed) as unanswered:
        raise error from unanswered


class Store(ABC):
    """The interface that drivers and wrappers implement and everything above uses.

    A store may be used by many threads. It must be opened in the process that uses it: in a child
    made by ``fork`` an open store that is shared between processes counts as closed.

    Beside what each method names, every call raises `StoreClosed` if the store is closed,
    `InvalidArgument` (or `LimitExceeded`) for arguments that are refused before the store is asked,
    and `StoreUnavailable` if the store cannot be reached; writes also `StoreFull`.
    """

    name: str
    """The driver's name, as in its URL."""

    limits: Limits
    """The largest partition, key and value; checked before every call."""

    shared_between_processes: bool
    """Whether other processes that open the same URL see the same data."""

    @abstractmethod
    def get(self, partition: bytes, key: bytes) -> Item:
        """Return a key with its value.

        Raises:
            KeyNotFound: There is no such key.
            StoreUnavailable: The store did not answer.
        """

    @abstractmethod
    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        """Write a value if the key is as the predicate says; return the version of the write.

        `version` is for callers that must recognise their own write later; by default the store
        draws one.

        Raises:
            PredicateFailed: The predicate does not hold; nothing was written.
            OutcomeUnknown: The write may have been applied; it will not be applied later.
        """

    @abstractmethod
    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        """Delete a key, if its version is still the one given; `ANY`: if there is such a key.

        Raises:
            PredicateFailed: The key was written since, or is deleted; nothing was deleted.
            OutcomeUnknown: The key may have been deleted; it will not be deleted later.
        """

    @abstractmethod
    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        """Return the first `limit` items with keys at or after `start`, in order of the keys.

        This is what a driver implements; callers use `scan`. With an `end`, all keys lie before it.
        A page shorter than `limit` means that the partition, or what lies before the end, ended
        there.

        Raises:
            StoreUnavailable: The store did not answer.
        """

    @abstractmethod
    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        """Return some partitions, and the cursor of the next page; None: that was the last one.

        This is what a driver implements; callers use `partitions`. The first cursor is empty; what
        the others are is the driver's own matter. Every partition that holds a key from the first
        page to the last comes at least once, in any order. It may come more than once, a page may
        be empty, and a partition whose keys were all deleted may come too.

        Raises:
            StoreUnavailable: The store did not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what the store holds; from then on every call but this raises `StoreClosed`."""

    def scan(
        self,
        partition: bytes,
        start: bytes = b"",
        *,
        prefix: bytes = b"",
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Iterate over a partition in byte order of the keys, from `start` (included) on.

        With a `prefix`, only keys that begin with it come, and what lies behind is not read.

        At most `limit` items come; the limit also sizes the first page. Pages grow from small to
        large. Nothing is held between pages: keys may be written and deleted meanwhile, by the
        caller too. A key that is there throughout comes exactly once; one that comes or goes
        meanwhile comes once or not at all.

        Raises:
            StoreUnavailable: The store did not answer.
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
        # Not one by one through a generator: that took a sixth of the time of a long scan.
        return chain.from_iterable(pages)

    def partitions(self) -> Iterator[bytes]:
        """Iterate over the partitions, each once, in no order; some may hold no key.

        A partition that holds a key all the time comes; one that comes or goes meanwhile may not.
        The partitions of installations that have a namespace are left out, unless this is the store
        of that namespace. On some databases this reads everything: it is for tools, not for
        requests.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        seen: set[bytes] = set()
        cursor: bytes | None = b""
        while cursor is not None:
            page, cursor = self.partition_page(cursor)
            for partition in page:
                if partition not in seen and not partition.startswith(NAMESPACE_MARK):
                    seen.add(partition)
                    yield partition

    # Calls for several keys: one call each by default; a driver does better where it can.

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        """Return the items of many ``(partition, key)`` pairs, in their order; None where absent.

        Each item is read as by `get`, in this order or all at one moment: none is older than those
        before it. Together they are not a snapshot.

        Raises:
            StoreUnavailable: The store did not answer.
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
        """Write some values, each as by `set`; then read some keys, as by `get_many`.

        One call, not one moment: other callers may see some of the writes without the rest, and may
        write between them. Writes without predicates take effect in any order; of equal keys the
        last value stays. If a write of several has a predicate, all take effect in their order, and
        the first predicate that does not hold ends the call. The reads see all of the writes, or
        later ones.

        A database that can run several writes and reads in one transaction or request does.

        Raises:
            PredicateFailed: The predicate of the write that the error names does not hold. This
                write and those behind it were not applied; those before it were. So of a single
                write, nothing was written.
            InvalidArgument: An argument is refused; nothing was written.
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
        for partition, key, value, predicate, version in writes:
            with applied_before(any_step=applied):
                self.set(partition, key, value, predicate, version=version)
            applied = True

    def _set_all(self, writes: Sequence[Put]) -> None:
        """Apply several writes without predicates, which were checked; `write` calls this.

        A driver whose database takes several writes at once implements this.
        """
        self._set_each(writes)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        """Remove the tombstones among about `limit` keys at or after `start`, and before `end`.

        Only for keys that no call has written for a while, and that nothing reads any more: a
        create that is delayed even longer may be applied afterwards. A database that keeps no
        tombstones, or removes them by itself, has nothing to do.

        Returns:
            Where to go on; None if there is nothing more to remove.

        Raises:
            OutcomeUnknown: Tombstones may have stayed; another call removes them.
        """
        del partition, start, limit, end
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
