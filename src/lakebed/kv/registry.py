"""From a URL to a store ready to use: the driver by its scheme, and the managed store around it."""

import logging
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Final

from lakebed.base.errors import MissingExtraError
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv.errors import InvalidArgument
from lakebed.kv.halt import Permit, check_not_halted
from lakebed.kv.managed import ManagedStore
from lakebed.kv.schema import check_schema
from lakebed.kv.store import Store
from lakebed.kv.urls import check_credentials, take_namespace

_LOGGER: Final = logging.getLogger(__name__)

OpenDriver = Callable[[str, Runtime], Store]

# Scheme -> module with a function `open_driver(url, runtime)`, and the extra that it needs.
# By name, so that a database's library loads only where it is used.
_DRIVERS: Final = MappingProxyType(
    {
        "memory": ("lakebed.kv.drivers.memory", None),
        "sqlite": ("lakebed.kv.drivers.sqlite", None),
        "postgresql": ("lakebed.kv.drivers.postgresql", "postgres"),
        "mysql": ("lakebed.kv.drivers.mysql", "mysql"),
        "mariadb": ("lakebed.kv.drivers.mysql", "mysql"),
        "etcd": ("lakebed.kv.drivers.etcd", None),
        "valkey": ("lakebed.kv.drivers.valkey", "valkey"),
        "redis": ("lakebed.kv.drivers.valkey", "valkey"),
        "dynamodb": ("lakebed.kv.drivers.dynamodb", "dynamodb"),
        "azblob": ("lakebed.kv.drivers.azure_blob", "azure"),
        "cosmos": ("lakebed.kv.drivers.cosmos", "cosmos"),
        "gs": ("lakebed.kv.drivers.gcs", "gcs"),
        "rocksdb": ("lakebed.kv.drivers.rocksdb", "rocksdb"),
        "mongodb": ("lakebed.kv.drivers.mongodb", "mongodb"),
        "mongodb+srv": ("lakebed.kv.drivers.mongodb", "mongodb"),
        "bigtable": ("lakebed.kv.drivers.bigtable", "bigtable"),
        "cassandra": ("lakebed.kv.drivers.cassandra", "cassandra"),
        "hbase": ("lakebed.kv.drivers.hbase", "hbase"),
        "spanner": ("lakebed.kv.drivers.spanner", "spanner"),
        "foundationdb": ("lakebed.kv.drivers.foundationdb", "foundationdb"),
    }
)

_OF_ONE_PROCESS: Final = frozenset({"memory", "rocksdb"})
_EXPERIMENTAL: Final = frozenset({"spanner", "foundationdb"})
"""Those that were never run against the database itself."""


def open_store(url: str, *, runtime: Runtime | None = None, permit: Permit | None = None) -> Store:
    """Open the store that a URL names, creating it if it is new.

    - ``memory://``: a new, empty store in this process.
    - ``sqlite:///data/lakebed.db``: a file, relative to the working directory; with four slashes
      (``sqlite:////var/lib/lakebed.db``) an absolute path.
    - ``postgresql://user:password@host:port/database``: a PostgreSQL database;
      ``?host=/socket/dir`` for a socket, ``?pool_size=40`` for that many connections at most.
    - ``mysql://`` (or ``mariadb://``), ``etcd://``, ``valkey://`` (or ``redis://``),
      ``dynamodb://``, ``azblob://``, ``cosmos://``, ``gs://``, ``bigtable://``, ``mongodb://``,
      ``cassandra://``, ``hbase://``, ``rocksdb:///``: see the drivers of these names.
    - ``spanner://`` and ``foundationdb://``, which are experimental: a warning is logged.

    ``?namespace=name`` opens a part of the database that others, with other names, do not see.

    With a `permit`, which tools have, the store is neither marked as new nor refused if it is
    halted, and its version is not looked at.

    Raises:
        InvalidArgument: The URL is not one of these.
        MissingExtraError: The driver needs an extra that is not installed; the message says which.
        ForeignStore: What is there is not a Lakebed store, or (`SchemaTooNew`, `SchemaTooOld`)
            is one of another version, or (`UnsafeStore`) would lose writes.
        StoreHalted: It is being copied, or was.
        StoreUnavailable: The database cannot be reached.
    """
    runtime = runtime or ThreadRuntime()
    url, namespace = take_namespace(url)
    inner = _load_driver(url)(url, runtime)
    if inner.name in _EXPERIMENTAL:
        _LOGGER.warning(
            "a %s store is experimental: it was never run against the real database. Keep nothing"
            " in it that you cannot lose",
            inner.name,
        )
    store = ManagedStore(inner, runtime, permit=permit or Permit(), namespace=namespace)
    try:
        if permit is None:
            check_not_halted(store)
            check_schema(store)
    except BaseException:
        store.close()
        raise
    _LOGGER.debug("opened a key-value store: %s", store.name)
    return store


def check_url(url: str) -> None:
    """Make sure that there is a driver for a URL, and that it is installed; nothing is opened.

    Raises:
        InvalidArgument: There is none.
        MissingExtraError: It needs an extra that is not installed.
    """
    _load_driver(take_namespace(url)[0])


def serves_one_process(url: str) -> bool:
    """Whether only one process at a time can use the store that a URL names."""
    return url.partition(":")[0] in _OF_ONE_PROCESS


def _load_driver(url: str) -> OpenDriver:
    # Not by a parser of URLs: those quote what they cannot read, and a password may be in it.
    scheme = url.partition(":")[0] if ":" in url else ""
    if scheme not in _DRIVERS:
        known = ", ".join(f"{name}://" for name in _DRIVERS)
        raise InvalidArgument(f"cannot open {scheme or 'a store without a scheme'}: use {known}")
    check_credentials(url)
    module, extra = _DRIVERS[scheme]
    try:
        driver: OpenDriver = import_module(module).open_driver
    except ImportError as error:
        if extra is None or (error.name or "").startswith("lakebed"):
            raise
        raise MissingExtraError(f"a {scheme} store", extra) from error
    return driver
