"""A store in a collection of MongoDB (6.0 or newer), shared by processes and machines.

``mongodb://user:password@host1,host2/database``, with the options of MongoDB's own URLs, or
``mongodb+srv://…``. The collection is ``lakebed_kv``. The ``_id`` of a document is the partition
and key as hexadecimal text, since MongoDB orders binary data by length first.

**Consistency and durability.** Regardless of the URL, writes wait for the journal of a majority,
and reads go to the primary, which first verifies that it still is the primary. A standalone server
has only its own journal. A primary with the storage engine ``inMemory`` is rejected if detected,
which requires a user with the role ``clusterMonitor``.

**Delayed writes.** A request may be delayed and applied after its client gave up. So the driver
uses `lakebed.kv.fenced` over conditional replacements of single documents. MongoDB refuses no
request as too old, so tombstones are kept: a deleted record leaves a small document, unless its key
is no longer read or written (`drop_tombstones`).

**Limits.** A document has at most 16 MB.
"""

from collections.abc import Mapping
from typing import Any, Final

from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.errors import (
    ConfigurationError,
    DuplicateKeyError,
    InvalidName,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)
from pymongo.read_concern import ReadConcern

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.errors import ForeignStore, InvalidArgument, UnsafeStore
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.rows import list_partitions, row_name, split_name
from lakebed.kv.store import Limits, Store, Version, after_prefix
from lakebed.kv.urls import TLS_OPTIONS, take_options, tls_context

CONNECT_SECONDS: Final = 2.0
REPLY_SECONDS: Final = 5.0
COLLECTION: Final = "lakebed_kv"

# Field names, short because every document contains them.
_ID: Final = "_id"
_VALUE: Final = "v"
_VERSION: Final = "w"
_STAMP: Final = "s"

_EXAMPLE: Final = "mongodb://user:password@host/database"

Document = Mapping[str, Any]
Client = MongoClient[dict[str, Any]]


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a MongoDB collection; see `lakebed.kv.open_store`."""
    return FencedStore(MongoDBCells(url), runtime)


class MongoDBCells(CellDatabase):
    """The documents of a collection. Raises as `lakebed.kv.open_store`."""

    name = "mongodb"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=8 << 20)
    shared_between_processes = True
    tombstone_seconds = None
    erases = True

    def __init__(self, url: str, *, reply_seconds: float = REPLY_SECONDS) -> None:
        self._client = _connect(url, reply_seconds)
        with closing_on_error(self.close):
            self._prepare()

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        selector = {_ID: row_name(partition, key).hex()}
        found = _FAILURES.read(lambda: self._exact.find_one(selector))
        return None if found is None else _cell(found)

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        name = row_name(partition, key).hex()
        document: dict[str, object] = {_ID: name, _STAMP: new.stamp, _VERSION: new.version}
        if new.value is not None:
            document[_VALUE] = new.value
        try:
            if stamp is None:
                self._writing.insert_one(document)
                return new
            selector = {_ID: name, _STAMP: stamp}
            if self._writing.replace_one(selector, document).matched_count:
                return new
        except DuplicateKeyError:
            pass
        except PyMongoError as error:
            raise _FAILURES.of_write(error) from error
        return self.read(partition, key)

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        try:
            self._writing.delete_one({_ID: row_name(partition, key).hex(), _STAMP: stamp})
        except PyMongoError as error:
            raise _FAILURES.of_write(error) from error

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        prefix = row_name(partition)
        documents = self._documents(prefix + start, after_prefix(prefix), limit)
        cells = [
            (split_name(bytes.fromhex(document[_ID]))[1], _cell(document)) for document in documents
        ]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def first_name(start: bytes) -> bytes | None:
            documents = self._documents(start, b"", 1)
            return bytes.fromhex(documents[0][_ID]) if documents else None

        return list_partitions(first_name, cursor)

    def close(self) -> None:
        self._client.close()

    def _documents(self, first: bytes, end: bytes, limit: int) -> list[Document]:
        bounds = {"$gte": first.hex()} | ({"$lt": end.hex()} if end else {})

        def ask() -> list[Document]:
            if self._is_replicated:
                # A linearizable read of one document proves that this server is the primary; so the
                # following read is the primary's, too.
                self._exact.find_one({_ID: ""})
            return list(self._reading.find({_ID: bounds}, sort=[(_ID, 1)], limit=limit))

        return _FAILURES.read(ask)

    def _status(self) -> Document:
        try:
            return self._client.admin.command("serverStatus")
        except OperationFailure:  # some users lack the permission
            return {}

    def _prepare(self) -> None:
        # The older name of "hello", known to all servers.
        answer = _FAILURES.read(lambda: self._client.admin.command("isMaster"))
        self._is_replicated = "setName" in answer or answer.get("msg") == "isdbgrid"
        _check_engine(_FAILURES.read(self._status))
        database = self._client.get_default_database()
        collection = database.get_collection(COLLECTION, read_preference=ReadPreference.PRIMARY)
        writing = (
            WriteConcern(w="majority", j=True) if self._is_replicated else WriteConcern(j=True)
        )
        exact, many = ("linearizable", "majority") if self._is_replicated else ("local", "local")
        self._writing = collection.with_options(write_concern=writing)
        self._exact = collection.with_options(read_concern=ReadConcern(exact))
        self._reading = collection.with_options(read_concern=ReadConcern(many))
        some = _FAILURES.read(lambda: self._reading.find_one({}))
        if some is not None and not {_STAMP, _VERSION} <= some.keys():
            raise ForeignStore(
                f"the collection {COLLECTION} is not a Lakebed store: a document has the fields"
                f" {', '.join(sorted(some))}"
            )


def _check_engine(status: Document) -> None:
    engine = status.get("storageEngine", {})
    if engine.get("persistent") is False:
        raise UnsafeStore(
            f"the storage engine {engine.get('name')} is not persistent, so acknowledged writes"
            " are lost when the server stops: use a persistent engine"
        )


def _connect(url: str, reply_seconds: float) -> Client:
    url, files = _tls_files(url)
    client: Client | None = None
    try:
        client = MongoClient(
            url,
            **files,
            # A retry inside the library could be applied twice.
            retryWrites=False,
            retryReads=False,
            connectTimeoutMS=int(CONNECT_SECONDS * 1000),
            serverSelectionTimeoutMS=int(CONNECT_SECONDS * 1000),
            waitQueueTimeoutMS=int(reply_seconds * 1000),
            socketTimeoutMS=int(reply_seconds * 1000),
        )
        client.get_default_database()
    except (ConfigurationError, InvalidName, ValueError, TypeError):
        if client is not None:
            client.close()
        # Omit the reason: it quotes parts of the URL.
        raise InvalidArgument(
            f"the URL is malformed, or does not name a database: use {_EXAMPLE}, and"
            " percent-encode special characters"
        ) from None
    return client


def _tls_files(url: str) -> tuple[str, dict[str, Any]]:
    """Return a URL without `TLS_OPTIONS`, and the corresponding settings of the library."""
    rest, found = take_options(url, TLS_OPTIONS)
    options = dict(found)
    if "key" in options:
        raise InvalidArgument(
            "key is no option of mongodb: append the private key to the file of cert"
        )
    if not options.keys() - {"tls"}:
        return url, {}
    if url.startswith("mongodb+srv:"):
        options.setdefault("tls", "true")  # as the library
    tls_context(options)  # checks the files
    return rest, {
        "tls": True,
        "tlsCAFile": options.get("ca"),
        "tlsCertificateKeyFile": options.get("cert"),
    }


_FAILURES: Final = Failures(
    "mongodb",
    (PyMongoError,),
    was_refused=lambda error: (
        isinstance(error, OperationFailure)
        and not isinstance(error, WriteConcernError | WTimeoutError)
    ),
    was_not_sent=lambda error: isinstance(error, ServerSelectionTimeoutError),
)


def _cell(document: Document) -> Cell:
    return Cell(Version(document[_VERSION]), document[_STAMP], document.get(_VALUE))
