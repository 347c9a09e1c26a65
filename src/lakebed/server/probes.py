"""Cheap queries that show whether the database and the storage answer.

The database is asked for one key that every store has, the storage for the head of an object that
does not exist. See `lakebed.server.http.readiness`.
"""

import os
from collections.abc import Callable
from typing import Final

from lakebed.block import (
    Address,
    BlockError,
    BlockStore,
    InvalidAddress,
    LocalSettings,
    Namespace,
    StorageUnavailable,
)
from lakebed.kv import KeyNotFound, KVError, Store
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY
from lakebed.server.settings import BlockstoreSettings

_NOT_THERE: Final = "lakebed-readiness/not-there"


def probe_store(store: Store) -> None:
    """Read the schema key; a missing key is an answer too."""
    try:
        store.get(METADATA_PARTITION, SCHEMA_KEY)
    except KeyNotFound:
        return


class StorageProbe:
    """Query of the storage for an object that does not exist, at an accessible address."""

    def __init__(
        self,
        block: BlockStore,
        settings: BlockstoreSettings,
        find_namespace: Callable[[], Namespace | None],
    ) -> None:
        """Create the query; `settings` may have a prefix of namespaces.

        Without one, `find_namespace` returns the namespace of any repository: cloud credentials are
        often valid for some buckets only.
        """
        self._block = block
        self._local = settings.block if isinstance(settings.block, LocalSettings) else None
        self._find_namespace = find_namespace
        self._address = _known_place(block.scheme, settings.default_namespace_prefix)

    def __call__(self) -> None:
        """Send the query; any answer will do, also a denied access."""
        if self._local is not None:
            self._local.root.stat()  # a deleted folder looks like an empty storage
        if self._address is None:
            try:
                namespace = self._find_namespace()
            except KVError:
                return  # the failure of the database is reported by its own query
            if namespace is None:
                return  # no repository and no prefix: no address to query
            self._address = namespace.address(_NOT_THERE)
        try:
            self._block.head(self._address)
        except StorageUnavailable:
            raise
        except BlockError:
            if self._local is not None and not os.access(self._local.root, os.W_OK | os.X_OK):
                raise


def _known_place(scheme: str, prefix: str | None) -> Address | None:
    """Return an address to query that needs no repository, or None."""
    if scheme in {"local", "mem"}:
        return Address.parse(f"{scheme}://{_NOT_THERE}")
    try:
        return None if prefix is None else Namespace.parse(prefix).address(_NOT_THERE)
    except InvalidAddress:
        return None  # a prefix may end within the bucket name
