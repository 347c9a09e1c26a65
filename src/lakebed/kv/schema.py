"""The schema version of a store, kept in the store."""

import logging
from typing import Final

from lakebed.base.errors import quoted
from lakebed.kv.errors import (
    ForeignStore,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    SchemaTooNew,
    SchemaTooOld,
)
from lakebed.kv.store import ABSENT, Store

SCHEMA_VERSION: Final = 2
"""2: branches and tags have a state."""
METADATA_PARTITION: Final = b"kv_metadata"
SCHEMA_KEY: Final = b"schema_version"

_LOGGER: Final = logging.getLogger(__name__)


def check_schema(store: Store) -> None:
    """Write the schema version into a new store; reject a store with another version."""
    try:
        version = store.get(METADATA_PARTITION, SCHEMA_KEY).value
    except KeyNotFound:
        version = _write_version(store)
    if not version.isdigit():
        raise ForeignStore(f"the schema version of the store is not a number: {quoted(version)}")
    if int(version) > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"the store has schema version {int(version)}, but this Lakebed supports at most"
            f" {SCHEMA_VERSION}: upgrade Lakebed"
        )
    if int(version) < SCHEMA_VERSION:
        raise SchemaTooOld(
            f"the store has schema version {int(version)}, but this Lakebed supports only"
            f" {SCHEMA_VERSION}: dump the refs of each repository with the older Lakebed (lakebed"
            " refs-dump), and restore them with this one into a new store (lakebed refs-restore)"
        )


def _write_version(store: Store) -> bytes:
    failure: OutcomeUnknown | None = None
    try:
        store.set(METADATA_PARTITION, SCHEMA_KEY, b"%d" % SCHEMA_VERSION, ABSENT)
        _LOGGER.info("initialized a new store with schema version %d", SCHEMA_VERSION)
    except PredicateFailed:
        pass  # another process was first, perhaps with another version
    except OutcomeUnknown as error:
        failure = error
    try:
        return store.get(METADATA_PARTITION, SCHEMA_KEY).value
    except KeyNotFound:
        if failure is not None:
            raise failure from None
        raise
