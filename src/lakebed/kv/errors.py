"""What can go wrong with a key-value store, and what a caller may assume afterwards.

    LakebedError
    └── KVError
        ├── KeyNotFound         get: there is no such key                       (also a KeyError)
        ├── PredicateFailed     set_if, delete_if: certainly not applied, the record differs
        ├── OutcomeUnknown      a write may or may not have been applied, but will not be later
        │   └── StoreUnavailable    the store did not do its work; this call changed nothing
        │       ├── StoreUnreachable    no connection could be had, so the store was not asked
        │       ├── StoreLocked         another process did not let go of the store in time
        │       ├── StoreHalted         the store is being copied, or was: nobody may write to it
        │       └── StoreFull           there is no room for the write
        ├── InvalidArgument     refused before the store was asked              (also a ValueError)
        │   └── LimitExceeded   a partition, key or value is larger than the driver holds
        ├── StoreClosed         the store was closed                            (also a ValueError)
        ├── CorruptRecord       a record is there, but is not what its key says
        └── ForeignStore        what the URL points to is not a Lakebed store
            ├── SchemaTooNew    it was written by a newer Lakebed
            ├── SchemaTooOld    it was written by an older Lakebed
            └── UnsafeStore     the database would lose or overrule acknowledged writes

A write has three outcomes: it returns, it raises `PredicateFailed`, or it raises
`OutcomeUnknown`. The first two are certain. `StoreUnavailable` is the lucky case of the third, in
which it is known that nothing happened; a caller that handles the three outcomes need not treat it
on its own.

Messages of `OutcomeUnknown` and its subclasses may name hosts, databases and files. They are for
logs; `public_message` is for everybody else.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted


class KVError(LakebedError):
    """Any error of a key-value store."""

    kind: ClassVar[str] = "kv"


class KeyNotFound(KVError, NotFoundMixin):
    """There is no such key."""

    kind = "key_not_found"

    def __init__(self, partition: bytes, key: bytes) -> None:
        super().__init__(f"there is no key {quoted(key)} in partition {quoted(partition)}")
        self.partition = partition
        self.key = key


class PredicateFailed(KVError):
    """A conditional write was not applied, because the record is not what the caller expected."""

    kind = "predicate_failed"

    def __init__(self, partition: bytes, key: bytes) -> None:
        super().__init__(
            f"key {quoted(key)} in partition {quoted(partition)} is not in the state that the write"
            " expects"
        )
        self.partition = partition
        self.key = key


class OutcomeUnknown(KVError):
    """A write may or may not have been applied; if it was not by now, it never will be.

    The caller finds out by meaning: it reads the record and looks for its own mark in it.
    """

    kind = "outcome_unknown"
    reason: ClassVar[str] = "the database does not answer"
    """What everybody may know of the cause."""
    public_message = f"{reason}; the change may have been made or not"


class StoreUnavailable(OutcomeUnknown):
    """The store could not be reached, refused, or did not answer a read; nothing was changed."""

    kind = "store_unavailable"
    public_message = "the database does not answer; try again"


class StoreUnreachable(StoreUnavailable):
    """No connection to the store could be had in time; it was not asked, and nothing changed."""

    kind = "store_unreachable"


class StoreLocked(StoreUnavailable):
    """Another process did not let go of the store in time; this call changed nothing."""

    kind = "store_locked"
    reason = "another process keeps the database locked"
    public_message = f"{reason}; nothing was changed, try again"


class StoreHalted(StoreUnavailable):
    """The store has a mark that stops all who write to it; this call changed nothing."""

    kind = "store_halted"
    reason = "the database is being moved, and takes no changes"
    public_message = reason


class StoreFull(StoreUnavailable):
    """There is no room left for the write; this call changed nothing. Free space, try again."""

    kind = "store_full"
    reason = "the database has no room left"
    public_message = reason


class InvalidArgument(KVError, ValueError):
    """An argument was refused before the store was asked; nothing changed."""

    kind = "invalid_argument"


class LimitExceeded(InvalidArgument):
    """A partition, key or value is larger than the driver declares to hold; nothing changed."""

    kind = "limit_exceeded"


class StoreClosed(KVError, ValueError):
    """The store was closed; open it again to use it."""

    kind = "store_closed"

    def __init__(self, reason: str = "the store is closed") -> None:
        super().__init__(f"{reason}; open it again with open_store()")


class CorruptRecord(KVError):
    """A record is there, but is not of the kind that its key says; it was left as it is."""

    kind = "corrupt_record"


class ForeignStore(KVError):
    """What the URL points to exists but is not a Lakebed store; it was left as it is."""

    kind = "foreign_store"


class SchemaTooNew(ForeignStore):
    """The store was written by a newer version of Lakebed; it was left as it is."""

    kind = "schema_too_new"


class SchemaTooOld(ForeignStore):
    """The store was written by an older version of Lakebed; it was left as it is."""

    kind = "schema_too_old"


class UnsafeStore(ForeignStore):
    """The database is set up so that it would lose or overrule what it acknowledged."""

    kind = "unsafe_store"
