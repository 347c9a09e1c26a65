"""The key-value store that every mutable record lives in: one small interface, many drivers."""

from lakebed.kv.errors import (
    CorruptRecord,
    ForeignStore,
    InvalidArgument,
    KeyNotFound,
    KVError,
    LimitExceeded,
    OutcomeUnknown,
    PredicateFailed,
    SchemaTooNew,
    StoreClosed,
    StoreFull,
    StoreHalted,
    StoreLocked,
    StoreUnavailable,
    StoreUnreachable,
    UnsafeStore,
)
from lakebed.kv.registry import check_url, open_store
from lakebed.kv.store import ABSENT, EXISTS, Item, Predicate, Store, Version

__all__ = [
    "ABSENT",
    "EXISTS",
    "CorruptRecord",
    "ForeignStore",
    "InvalidArgument",
    "Item",
    "KVError",
    "KeyNotFound",
    "LimitExceeded",
    "OutcomeUnknown",
    "Predicate",
    "PredicateFailed",
    "SchemaTooNew",
    "Store",
    "StoreClosed",
    "StoreFull",
    "StoreHalted",
    "StoreLocked",
    "StoreUnavailable",
    "StoreUnreachable",
    "UnsafeStore",
    "Version",
    "check_url",
    "open_store",
]
