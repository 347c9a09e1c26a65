"""A store in a table of Google Bigtable, shared by any number of processes and machines.

``bigtable://project/instance/table``. A missing table is created; a table with other column
families is rejected. Credentials come from Google's default credentials. ``?app_profile=name``
selects an app profile; ``&emulator=127.0.0.1:9000`` is for Google's emulator.

**Consistency.** Within one cluster, reads are consistent and conditional writes atomic. The
clusters of an instance replicate asynchronously, and a conditional write in one may be overwritten
from another. So a table in several clusters is rejected unless the URL names an app profile. The
profile must use single-cluster routing and allow single-row transactions; it must be the same for
all servers.

**Delayed writes.** A request may be delayed and applied after its client gave up. So the driver
uses `lakebed.kv.fenced` over Bigtable's conditional changes of single rows. Google refuses requests
with tokens older than an hour. Tombstones are in a separate column family, from which Bigtable
removes cells older than a day.

**Durability.** Bigtable acknowledges a write when it is stored. This is not configurable.

**Limits.** A row name has at most 4 KiB, a cell 100 MB; Google recommends at most 10 MB.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import timedelta
from typing import Final

from google.api_core.exceptions import AlreadyExists, NotFound
from google.cloud.bigtable_admin_v2 import BaseBigtableTableAdminClient
from google.cloud.bigtable_admin_v2.types import ColumnFamily, GcRule, Table
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2.types import ReadRowsResponse

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.google_rpc import Connection
from lakebed.kv.errors import ForeignStore, InvalidArgument, StoreUnavailable, UnsafeStore
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.rows import list_partitions, pack, row_name, split_name, unpack
from lakebed.kv.store import Limits, Store, after_prefix
from lakebed.kv.urls import split_url

REPLY_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 30.0
TOMBSTONE_SECONDS: Final = 24 * 3600.0

# Names are short because every row contains them. A row has one cell, in one of the families.
_LIVING: Final = "v"
_TOMBSTONES: Final = "t"
_COLUMN: Final = b"c"
_NOW: Final = -1
"""The cell timestamp that stands for the server's clock."""

_OPTIONS: Final = frozenset({"app_profile", "emulator"})
_EXAMPLE: Final = "bigtable://project/instance/table"
_NAMES: Final = re.compile(r"([A-Za-z0-9_.:-]+)/([A-Za-z0-9_.:-]+)/([A-Za-z0-9_.:-]+)")

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a Bigtable table; see `lakebed.kv.open_store`."""
    return FencedStore(BigtableCells(url), runtime)


class BigtableCells(CellDatabase):
    """The rows of a table. Raises as `lakebed.kv.open_store`."""

    name = "bigtable"
    limits = Limits(partition_bytes=1024, key_bytes=3000, value_bytes=8 << 20)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS

    def __init__(self, url: str, *, reply_seconds: float = REPLY_SECONDS) -> None:
        instance, table, options = _parse_url(url)
        self._table = f"{instance}/tables/{table}"
        self._profile = options.get("app_profile", "")
        self._reply_seconds = reply_seconds
        emulator = options.get("emulator")
        self._connection = Connection(BigtableClient, emulator=emulator, database=self.name)
        admin = Connection(BaseBigtableTableAdminClient, emulator=emulator, database=self.name)
        with closing(admin), closing_on_error(self.close):
            self._prepare(admin, instance, table)

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        found = self._rows({"row_keys": [row_name(partition, key)]}, 1)
        return found[0][1] if found else None

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        family = _TOMBSTONES if new.value is None else _LIVING
        cell = {
            "family_name": family,
            "column_qualifier": _COLUMN,
            "timestamp_micros": _NOW,
            "value": pack(new),
        }
        request: dict[str, object] = {
            "table_name": self._table,
            "app_profile_id": self._profile,
            "row_key": row_name(partition, key),
        }
        change = [{"delete_from_row": {}}, {"set_cell": cell}]
        if stamp is None:
            # Without a filter, the predicate is whether the row has any cell.
            request["false_mutations"] = change
        else:
            bounds = {"start_value_closed": stamp, "end_value_open": after_prefix(stamp)}
            if not bounds["end_value_open"]:
                del bounds["end_value_open"]
            request["predicate_filter"] = {"value_range_filter": bounds}
            request["true_mutations"] = change
        reply = self._connection.write(
            lambda client: client.check_and_mutate_row(
                request, retry=None, timeout=self._reply_seconds
            )
        )
        if reply.predicate_matched == (stamp is not None):
            return new
        return self.read(partition, key)

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        prefix = row_name(partition)
        rows = self._rows(_between(prefix + start, after_prefix(prefix)), limit)
        cells = [(split_name(name)[1], cell) for name, cell in rows]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def first_name(start: bytes) -> bytes | None:
            rows = self._rows(_between(start, b""), 1)
            return rows[0][0] if rows else None

        return list_partitions(first_name, cursor)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, selector: Mapping[str, object], limit: int) -> list[tuple[bytes, Cell]]:
        request = {
            "table_name": self._table,
            "app_profile_id": self._profile,
            "rows": selector,
            "rows_limit": limit,
        }

        def ask(client: BigtableClient) -> list[tuple[bytes, Cell]]:
            replies = client.read_rows(request, retry=None, timeout=self._reply_seconds)
            return list(_merge(replies))

        return self._connection.read(ask)

    def _prepare(
        self, admin: Connection[BaseBigtableTableAdminClient], instance: str, name: str
    ) -> None:
        """Create the table if missing; reject a foreign or unsafe table."""
        try:
            table = self._describe(admin, Table.View.SCHEMA_VIEW)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, NotFound):
                raise
            families = {
                _LIVING: ColumnFamily(gc_rule=GcRule(max_num_versions=1)),
                _TOMBSTONES: ColumnFamily(
                    gc_rule=GcRule(max_age=timedelta(seconds=TOMBSTONE_SECONDS))
                ),
            }
            request = {
                "parent": instance,
                "table_id": name,
                "table": Table(column_families=families),
            }

            def create(client: BaseBigtableTableAdminClient) -> None:
                with suppress(AlreadyExists):  # another process was first
                    client.create_table(request, retry=None, timeout=OPEN_SECONDS)
                    _LOGGER.info("created the table %s", name)

            admin.read(create)  # as a read: a second request is harmless
            table = self._describe(admin, Table.View.SCHEMA_VIEW)
        found = sorted(table.column_families)
        if found != sorted((_LIVING, _TOMBSTONES)):
            raise ForeignStore(
                f"the table {name} is not a Lakebed store: its column families are"
                f" {', '.join(found)}"
            )
        _check_rules(table, name)
        _check_clusters(self._describe(admin, Table.View.REPLICATION_VIEW), name, self._profile)

    def _describe(self, admin: Connection[BaseBigtableTableAdminClient], view: Table.View) -> Table:
        request = {"name": self._table, "view": view}
        return admin.read(
            lambda client: client.get_table(request, retry=None, timeout=OPEN_SECONDS)
        )


def _check_rules(table: Table, name: str) -> None:
    """Reject garbage-collection rules that remove live cells, or tombstones too early."""
    for family, seconds, least in (
        (_LIVING, None, "forever"),
        (_TOMBSTONES, TOMBSTONE_SECONDS, f"for {TOMBSTONE_SECONDS:.0f} seconds"),
    ):
        if not _keeps(table.column_families[family].gc_rule, seconds):
            raise UnsafeStore(
                f"the table {name} may lose writes: the garbage-collection rules of its column"
                f" family {family} must keep the newest cell {least}"
            )


def _keeps(rule: GcRule, seconds: float | None) -> bool:
    """Return whether a rule keeps the newest cell for `seconds`; None: forever."""
    if "max_age" in rule:
        return seconds is not None and rule.max_age.total_seconds() >= seconds
    if "union" in rule:  # removes a cell if any rule does
        return all(_keeps(each, seconds) for each in rule.union.rules)
    if "intersection" in rule:
        return any(_keeps(each, seconds) for each in rule.intersection.rules)
    return True  # by the number of versions, or no rule


def _check_clusters(table: Table, name: str, profile: str) -> None:
    clusters = len(table.cluster_states)
    if clusters > 1 and not profile:
        raise UnsafeStore(
            f"the table {name} is replicated asynchronously to {clusters} clusters: set"
            " ?app_profile= to a profile with single-cluster routing, the same for all servers"
        )


def _parse_url(url: str) -> tuple[str, str, dict[str, str]]:
    """Return the full name of the instance, the name of the table, and the options."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    names = _NAMES.fullmatch(parts.netloc + parts.path.rstrip("/"))
    if names is None:
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(
            f"the URL does not name a table: use {_EXAMPLE}; credentials come from the environment"
        )
    project, instance, table = names.groups()
    return f"projects/{project}/instances/{instance}", table, options


def _between(first: bytes, end: bytes) -> dict[str, object]:
    bounds = {"start_key_closed": first} | ({"end_key_open": end} if end else {})
    return {"row_ranges": [bounds]}


def _merge(replies: Iterable[ReadRowsResponse]) -> Iterator[tuple[bytes, Cell]]:
    """Assemble rows from the chunks of a reply; a large value spans several."""
    name, family, value = b"", "", b""
    for reply in replies:
        for chunk in reply._pb.chunks:  # noqa: SLF001 - the wrapper takes ten times as long
            if chunk.reset_row:
                name, family, value = b"", "", b""
                continue
            name = chunk.row_key or name
            if chunk.HasField("family_name"):
                family = chunk.family_name.value
            value += chunk.value
            if chunk.commit_row:
                yield name, unpack(value, tombstone=family == _TOMBSTONES)
                name, family, value = b"", "", b""
