"""The key-value store of all mutable records: a small contract and one driver per database.

Imports `lakebed.base` only. Public: the names below, the types of `store`, `records` (typed records
for the layers above), and `copying` and `halt` for the tools that copy a store.
"""

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
    SchemaTooOld,
    StoreClosed,
    StoreFull,
    StoreHalted,
    StoreLocked,
    StoreUnavailable,
    StoreUnreachable,
    UnsafeStore,
)
from lakebed.kv.registry import check_url, open_store, serves_one_process
from lakebed.kv.store import ABSENT, ANY, EXISTS, Item, Pair, Predicate, Put, Store, Version

__all__ = [
    "ABSENT",
    "ANY",
    "EXISTS",
    "CorruptRecord",
    "ForeignStore",
    "InvalidArgument",
    "Item",
    "KVError",
    "KeyNotFound",
    "LimitExceeded",
    "OutcomeUnknown",
    "Pair",
    "Predicate",
    "PredicateFailed",
    "Put",
    "SchemaTooNew",
    "SchemaTooOld",
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
    "serves_one_process",
]
