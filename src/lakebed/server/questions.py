"""What a server asks its database and its storage to learn whether they answer.

A question costs as little as it can: one key that every store has, and the head of one object that
is not there. See `lakebed.server.http.readiness`.
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


def ask_store(store: Store) -> None:
    """Read the mark that every store has; one that is missing is an answer too."""
    try:
        store.get(METADATA_PARTITION, SCHEMA_KEY)
    except KeyNotFound:
        return


class StorageQuestion:
    """Asks the storage for an object that is not there, in a place that it may be asked about."""

    def __init__(
        self,
        block: BlockStore,
        settings: BlockstoreSettings,
        find_namespace: Callable[[], Namespace | None],
    ) -> None:
        """Prepare the question.

        Args:
            block: The storage.
            settings: With a prefix for namespaces, if there is one.
            find_namespace: Returns the namespace of any repository: in a cloud, credentials are
                often good for some buckets only. None while there is no repository.
        """
        self._block = block
        self._local = settings.block if isinstance(settings.block, LocalSettings) else None
        self._find_namespace = find_namespace
        self._address = _known_place(block.scheme, settings.default_namespace_prefix)

    def __call__(self) -> None:
        """Ask; any answer will do, also that the object may not be looked at."""
        if self._local is not None:
            self._local.root.stat()  # a folder that is gone looks like an empty storage
        if self._address is None:
            try:
                namespace = self._find_namespace()
            except KVError:
                return  # that the database does not answer is not the storage's fault
            if namespace is None:
                return  # no repository, no prefix: there is no place that could be asked about
            self._address = namespace.address(_NOT_THERE)
        try:
            self._block.head(self._address)
        except StorageUnavailable:
            raise
        except BlockError:
            if self._local is not None and not os.access(self._local.root, os.W_OK | os.X_OK):
                raise


def _known_place(scheme: str, prefix: str | None) -> Address | None:
    """Return where the storage can be asked without looking for a repository."""
    if scheme in {"local", "mem"}:
        return Address.parse(f"{scheme}://{_NOT_THERE}")
    try:
        return None if prefix is None else Namespace.parse(prefix).address(_NOT_THERE)
    except InvalidAddress:
        return None  # a prefix may end before the name of a bucket does
