"""A Spark data source of the objects at a ref.

    spark.dataSource.register(LakebedDataSource)
    objects = (
        spark.read.format("lakebed")
        .option("endpoint", "http://127.0.0.1:8000")
        .option("access_key_id", ...).option("secret_access_key", ...)
        .option("local_root", ...)  # for a local storage
        .load("lakefs://my-repo/main/some/prefix/")
    )

Only committed objects are read, with one Spark partition a range. Ranges outside the prefix are
skipped.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lakebed.block import Namespace
from lakebed.clients.garbage.server import GarbageServer
from lakebed.clients.http.settings import ClientSettings, normal_endpoint
from lakebed.formats import (
    MetaRange,
    MetaRangeID,
    RangeID,
    decode_metarange,
    decode_range,
    metarange_path,
    range_path,
)
from lakebed.reclaim.collector.errors import InvalidOption
from lakebed.reclaim.collector.storage import Storage, block_settings

_URI: Final = re.compile(r"lakefs://([^/]+)/([^/]+)/?(.*)", re.DOTALL)
_COLUMNS: Final = (
    "path string, address string, size long, checksum string, mtime timestamp,"
    " content_type string, metadata map<string, string>"
)
_RELATIVE: Final = 0
_ROWS_MAX: Final = 10_000


class LakebedDataSource(DataSource):
    """``spark.read.format("lakebed")``."""

    @classmethod
    def name(cls) -> str:
        return "lakebed"

    def schema(self) -> str:
        return _COLUMNS

    def reader(self, schema: object) -> "LakebedReader":  # noqa: ARG002 - the schema is fixed
        return LakebedReader(dict(self.options))


@dataclass
class RangePartition(InputPartition):
    """The partition of one range."""

    range_id: RangeID


class LakebedReader(DataSourceReader):
    """Reader of the objects at one ref."""

    def __init__(self, options: dict[str, str]) -> None:
        match = _URI.fullmatch(options.get("path", ""))
        if match is None:
            raise InvalidOption(
                f"{options.get('path')!r} is not a path such as lakefs://repository/ref/prefix"
            )
        repository, self._ref, prefix = match.groups()
        self._prefix = prefix.encode()
        missing = [name for name in _NEEDED if name not in options]
        if missing:
            raise InvalidOption(f"the data source needs the option {missing[0]}")
        endpoint = normal_endpoint(options["endpoint"])
        keys = options["access_key_id"], options["secret_access_key"]
        server = GarbageServer(ClientSettings(endpoint, *keys), repository)
        try:
            namespace = Namespace.parse(server.storage_namespace())
            self._metarange = MetaRangeID(server.metarange(self._ref))
        finally:
            server.close()
        root = options.get("local_root")
        settings = block_settings(
            namespace, local_root=Path(root) if root else None, environ=os.environ
        )
        self._storage = Storage(settings, namespace, "")

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each range that may contain the prefix."""
        if not self._metarange:
            return []
        return [
            RangePartition(ref.range_id)
            for ref in self._read_metarange(self._metarange).refs
            if ref.max_key >= self._prefix and ref.min_key[: len(self._prefix)] <= self._prefix
        ]

    def _read_metarange(self, found: MetaRangeID) -> MetaRange:
        address = self._storage.namespace.address(metarange_path(found))
        data = self._storage.block.read(address)
        return decode_metarange(data, found, file=str(address), read=self._read_metarange)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the objects of one range."""
        assert isinstance(partition, RangePartition), "made by `partitions`"
        address = self._storage.namespace.address(range_path(partition.range_id))
        data = self._storage.block.read(address)
        entries = decode_range(data, partition.range_id, file=str(address))
        chosen = entries.filter(pc.starts_with(entries.column("key"), self._prefix))
        yield from self._objects(chosen).to_batches(max_chunksize=_ROWS_MAX)

    def _objects(self, entries: pa.Table) -> pa.Table:
        prefix = pa.scalar(str(self._storage.namespace))
        whole = pc.binary_join_element_wise(prefix, entries.column("address"), "")
        is_relative = pc.equal(entries.column("address_type"), _RELATIVE)
        return pa.table(
            {
                "path": entries.column("key").cast(pa.string()),
                "address": pc.if_else(is_relative, whole, entries.column("address")),
                **{name: entries.column(name) for name in _SAME},
                "metadata": entries.column("metadata").cast(pa.map_(pa.string(), pa.string())),
            }
        )


_NEEDED: Final = ("endpoint", "access_key_id", "secret_access_key")
_SAME: Final = ("size", "checksum", "mtime", "content_type")
