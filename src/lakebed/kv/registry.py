"""Open the store of a URL: the driver is selected by the scheme and wrapped in a managed store.

Other packages register drivers as entry points in the group `GROUP`.
"""

import logging
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from lakebed.base.errors import MissingExtraError
from lakebed.base.plugins import find_driver
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv.errors import InvalidArgument
from lakebed.kv.halt import Permit, check_not_halted
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.managed import ManagedStore
from lakebed.kv.schema import check_schema
from lakebed.kv.store import Store
from lakebed.kv.urls import check_credentials, split_namespace

_LOGGER: Final = logging.getLogger(__name__)

GROUP: Final = "lakebed.kv"

# Scheme -> module with a function `open_driver(url, runtime)`, and its extra. Modules are imported
# by name, so that a database's library is loaded only when used. A module with `SINGLE_PROCESS`
# has a database that only one process can use at a time.
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

_EXPERIMENTAL: Final = frozenset({"spanner", "foundationdb"})
"""Drivers that were never run against the database itself."""


def open_store(url: str, *, runtime: Runtime | None = None, permit: Permit | None = None) -> Store:
    """Open the store of a URL; create it if it does not exist.

    - ``memory://``: a new, empty store in this process.
    - ``sqlite:///data/lakebed.db``: a file, relative to the working directory; with four slashes
      (``sqlite:////var/lib/lakebed.db``) an absolute path.
    - ``postgresql://user:password@host:port/database``: a PostgreSQL database;
      ``?host=/socket/dir`` for a socket, ``?pool_size=40`` for the maximum number of connections.
    - ``mysql://`` (or ``mariadb://``), ``etcd://``, ``valkey://`` (or ``redis://``),
      ``dynamodb://``, ``azblob://``, ``cosmos://``, ``gs://``, ``bigtable://``, ``mongodb://``,
      ``cassandra://``, ``hbase://``, ``rocksdb:///``: see the drivers of these names.
    - Schemes of drivers in other packages (entry points in the group ``lakebed.kv``).
    - ``spanner://`` and ``foundationdb://``, which are experimental: a warning is logged.

    ``?namespace=name`` opens a part of the database that is isolated from other namespaces.

    With a `permit`, which tools pass, the halt flag and the schema version are neither checked nor
    written.

    Raises:
        InvalidArgument: The URL is malformed, or has an unknown scheme.
        MissingExtraError: The extra of the driver is not installed; the message names it.
        BrokenDriver: The driver of another package cannot be used.
        ForeignStore: The database is not a Lakebed store, or has another schema version
            (`SchemaTooNew`, `SchemaTooOld`), or would lose writes (`UnsafeStore`).
        StoreHalted: The store is being copied, or was copied.
        StoreUnavailable: The database cannot be reached.
    """
    runtime = runtime or ThreadRuntime()
    url, namespace = split_namespace(url)
    inner: Store = _load_driver(url).open_driver(url, runtime)
    if inner.name in _EXPERIMENTAL:
        _LOGGER.warning(
            "%s stores are experimental and untested against the real database: keep no data in"
            " them that you cannot lose",
            inner.name,
        )
    store = ManagedStore(inner, runtime, permit=permit or Permit(), namespace=namespace)
    with closing_on_error(store.close):
        if permit is None:
            check_not_halted(store)
            check_schema(store)
    _LOGGER.debug("opened a key-value store: %s", store.name)
    return store


def check_url(url: str) -> None:
    """Check that the driver of a URL exists and is installed, without opening the store."""
    _load_driver(split_namespace(url)[0])


def serves_one_process(url: str) -> bool:
    """Return whether the store can be used by only one process at a time."""
    return getattr(_load_driver(url), "SINGLE_PROCESS", False)


def _load_driver(url: str) -> ModuleType:
    # Not by a URL parser: its errors quote the URL, which may contain a password.
    scheme = url.partition(":")[0] if ":" in url else ""
    if scheme not in _DRIVERS:
        driver = find_driver(GROUP, scheme)
        if driver is None:
            known = ", ".join(f"{name}://" for name in _DRIVERS)
            raise InvalidArgument(
                f"unsupported database URL: {scheme or 'no scheme'}; use {known}, or install a"
                f" package with a driver (an entry point in the group {GROUP})"
            )
        check_credentials(url)
        return driver
    check_credentials(url)
    module, extra = _DRIVERS[scheme]
    try:
        return import_module(module)
    except ImportError as error:
        if extra is None or (error.name or "").startswith("lakebed"):
            raise
        raise MissingExtraError(f"a {scheme} store", extra) from error
