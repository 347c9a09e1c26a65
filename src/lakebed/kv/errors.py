"""Errors of key-value stores, and the state of the store after each.

    LakebedError
    └── KVError
        ├── KeyNotFound         get: the key does not exist                     (also a KeyError)
        ├── PredicateFailed     conditional write not applied: the record differs
        ├── OutcomeUnknown      a write may have been applied, but will not be applied later
        │   └── StoreUnavailable    the store is unavailable, and unchanged
        │       ├── StoreUnreachable    no connection could be made
        │       ├── StoreLocked         another process holds the lock of the store
        │       ├── StoreHalted         writes are halted: the store is being or was copied
        │       └── StoreFull           no space left for the write
        ├── InvalidArgument     rejected before the database was called         (also a ValueError)
        │   └── LimitExceeded   a partition, key or value exceeds the driver's limits
        ├── StoreClosed         the store was closed                            (also a ValueError)
        ├── CorruptRecord       a record cannot be decoded as the kind of its key
        └── ForeignStore        the database of the URL is not a Lakebed store
            ├── SchemaTooNew    written by a newer Lakebed
            ├── SchemaTooOld    written by an older Lakebed
            └── UnsafeStore     the database may lose acknowledged writes

A write returns, raises `PredicateFailed`, or raises `OutcomeUnknown`. The first two are certain.
`StoreUnavailable` is the special case of `OutcomeUnknown` in which the store is unchanged; callers
that handle the three outcomes need no separate handler.

Messages of `OutcomeUnknown` and its subclasses may contain hosts, databases and files. Use them in
logs only; `public_message` is for API clients.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted


class KVError(LakebedError):
    """Base class of all errors of a key-value store."""

    kind: ClassVar[str] = "kv"


class KeyNotFound(KVError, NotFoundMixin):
    """The key does not exist."""

    kind = "key_not_found"

    def __init__(self, partition: bytes, key: bytes) -> None:
        super().__init__(f"key {quoted(key)} not found in partition {quoted(partition)}")
        self.partition = partition
        self.key = key


class PredicateFailed(KVError):
    """A conditional write was not applied, because the record is not in the expected state."""

    kind = "predicate_failed"

    def __init__(self, partition: bytes, key: bytes) -> None:
        super().__init__(
            f"key {quoted(key)} in partition {quoted(partition)} does not match the predicate of"
            " the write"
        )
        self.partition = partition
        self.key = key


class OutcomeUnknown(KVError):
    """A write may have been applied; if not, it never will be.

    The caller determines the outcome by reading the record and comparing its content.
    """

    kind = "outcome_unknown"
    reason: ClassVar[str] = "the database does not answer"
    """Cause of the error without confidential details."""
    public_message = f"{reason}; the change may or may not have been applied"


class StoreUnavailable(OutcomeUnknown):
    """The store is unreachable, refused the call, or did not answer a read; it is unchanged."""

    kind = "store_unavailable"
    public_message = "the database does not answer; retry later"


class StoreUnreachable(StoreUnavailable):
    """No connection to the store could be made in time; the store is unchanged."""

    kind = "store_unreachable"


class StoreLocked(StoreUnavailable):
    """Another process did not release the lock of the store in time; the store is unchanged."""

    kind = "store_locked"
    reason = "the database is locked by another process"
    public_message = f"{reason}; nothing was changed, retry later"


class StoreHalted(StoreUnavailable):
    """Writes are halted, because the store is being or was copied; the store is unchanged."""

    kind = "store_halted"
    reason = "the database is being migrated and is read-only"
    public_message = reason


class StoreFull(StoreUnavailable):
    """No space is left for the write; the store is unchanged. Free space and retry."""

    kind = "store_full"
    reason = "the database is full"
    public_message = reason


class InvalidArgument(KVError, ValueError):
    """An argument was rejected before the database was called."""

    kind = "invalid_argument"


class LimitExceeded(InvalidArgument):
    """A partition, key or value exceeds the driver's limits."""

    kind = "limit_exceeded"


class StoreClosed(KVError, ValueError):
    """The store was closed."""

    kind = "store_closed"

    def __init__(self, reason: str = "the store is closed") -> None:
        super().__init__(f"{reason}; open it again with open_store()")


class CorruptRecord(KVError):
    """A record cannot be decoded as the kind of its key."""

    kind = "corrupt_record"


class ForeignStore(KVError):
    """The database of the URL exists but is not a Lakebed store; it is unchanged."""

    kind = "foreign_store"


class SchemaTooNew(ForeignStore):
    """The store was written by a newer version of Lakebed; it is unchanged."""

    kind = "schema_too_new"


class SchemaTooOld(ForeignStore):
    """The store was written by an older version of Lakebed; it is unchanged."""

    kind = "schema_too_old"


class UnsafeStore(ForeignStore):
    """The database is configured so that it may lose or overwrite acknowledged writes."""

    kind = "unsafe_store"
