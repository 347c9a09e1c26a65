"""A store in a table of Google Bigtable, shared by any number of processes and machines.

``bigtable://project/instance/table``. The table is created if there is none; a table with other
column families is refused. Credentials come from where Google's tools look for them.
``?app_profile=name`` names an app profile; ``&emulator=127.0.0.1:9000`` is for Google's emulator.

**Consistency.** Within one cluster reads see every write, and conditions hold. Clusters of one
instance take each other's writes over later, and a condition that held in one is overruled from
another. So a table in several clusters is refused unless the URL names an app profile. That one
must route all requests to one cluster and allow transactions of single rows; it must be the same
in all servers.

**Late application.** A request may be held up and land after its client gave up. Bigtable changes
single rows on a condition, so `lakebed.kv.fenced` makes the contract of it. Google refuses
a request whose token is older than an hour. Tombstones are in a column family of their own, of
which Bigtable removes what is older than a day.

**Durability.** Bigtable answers a write when it is stored. Nothing can be set wrong there.

**Limits.** The name of a row has 4 KiB at most. A cell may have 100 MB; Google advises up to 10.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from google.api_core.exceptions import AlreadyExists, NotFound
from google.cloud.bigtable_admin_v2 import BaseBigtableTableAdminClient
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import (
    BigtableTableAdminGrpcTransport,
)
from google.cloud.bigtable_admin_v2.types import ColumnFamily, GcRule, Table
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.google_rpc import Connection
from lakebed.kv.errors import ForeignStore, InvalidArgument, StoreUnavailable, UnsafeStore
from lakebed.kv.fenced import Cell, CellDatabase, FencedStore
from lakebed.kv.rows import list_partitions, pack, row_name, split_name, unpack
from lakebed.kv.store import Limits, Store, after_prefix
from lakebed.kv.urls import split_url

REPLY_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 30.0
TOMBSTONE_SECONDS: Final = 24 * 3600.0

# Names are short because every row holds them. A row has one cell, in one of the families.
_LIVING: Final = "v"
_TOMBSTONES: Final = "t"
_COLUMN: Final = b"c"
_NOW: Final = -1
"""As the time of a cell: the server's clock."""

_OPTIONS: Final = frozenset({"app_profile", "emulator"})
_EXAMPLE: Final = "bigtable://project/instance/table"
_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]+")

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a Bigtable table; see `lakebed.kv.open_store`."""
    return FencedStore(BigtableCells(url), runtime)


class BigtableCells(CellDatabase):
    """The rows of a table.

    Raises:
        InvalidArgument: The URL is malformed.
        ForeignStore: There is a table of that name that is not ours, or cannot be used.
        StoreUnavailable: The table cannot be reached or created.
    """

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
        self._connection = Connection(
            BigtableClient, BigtableGrpcTransport, emulator=emulator, database=self.name
        )
        admin = Connection(
            BaseBigtableTableAdminClient,
            BigtableTableAdminGrpcTransport,
            emulator=emulator,
            database=self.name,
        )
        try:
            self._prepare(admin, instance, table)
        except BaseException:
            self.close()
            raise
        finally:
            admin.close()

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
        request: dict[str, Any] = {
            "table_name": self._table,
            "app_profile_id": self._profile,
            "row_key": row_name(partition, key),
        }
        change = [{"delete_from_row": {}}, {"set_cell": cell}]
        if stamp is None:
            # Without a filter the question is whether the row has any cell.
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

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
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

    def _rows(self, which: Mapping[str, Any], limit: int) -> list[tuple[bytes, Cell]]:
        request = {
            "table_name": self._table,
            "app_profile_id": self._profile,
            "rows": which,
            "rows_limit": limit,
        }

        def ask(client: Any) -> list[tuple[bytes, Cell]]:
            replies = client.read_rows(request, retry=None, timeout=self._reply_seconds)
            return list(_merge(replies))

        return self._connection.read(ask)

    def _prepare(self, admin: Connection, instance: str, name: str) -> None:
        """Create the table if there is none; refuse one that is not ours or not safe."""
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

            def create(client: Any) -> None:
                with suppress(AlreadyExists):  # another process came first
                    client.create_table(request, retry=None, timeout=OPEN_SECONDS)
                    _LOGGER.info("created the table %s", name)

            admin.read(create)  # as a read: to be asked twice for a table does no harm
            table = self._describe(admin, Table.View.SCHEMA_VIEW)
        found = sorted(table.column_families)
        if found != sorted((_LIVING, _TOMBSTONES)):
            raise ForeignStore(
                f"the table {name} is not Lakebed's: its column families are {', '.join(found)}"
            )
        _check_rules(table, name)
        _check_clusters(self._describe(admin, Table.View.REPLICATION_VIEW), name, self._profile)

    def _describe(self, admin: Connection, view: Any) -> Any:
        request = {"name": self._table, "view": view}
        return admin.read(
            lambda client: client.get_table(request, retry=None, timeout=OPEN_SECONDS)
        )


def _check_rules(table: Any, name: str) -> None:
    """Refuse rules that remove what is not deleted, or tombstones before their time."""
    for family, seconds, least in (
        (_LIVING, None, "for ever"),
        (_TOMBSTONES, TOMBSTONE_SECONDS, f"for {TOMBSTONE_SECONDS:.0f} seconds"),
    ):
        if not _keeps(table.column_families[family].gc_rule, seconds):
            raise UnsafeStore(
                f"the table {name} would lose writes: the rules of garbage collection of its column"
                f" family {family} must keep the newest cell {least}"
            )


def _keeps(rule: Any, seconds: float | None) -> bool:
    """Whether a rule leaves the newest cell alone for so long; None: for ever."""
    if "max_age" in rule:
        return seconds is not None and rule.max_age.total_seconds() >= seconds
    if "union" in rule:  # removes what any of them would
        return all(_keeps(each, seconds) for each in rule.union.rules)
    if "intersection" in rule:
        return any(_keeps(each, seconds) for each in rule.intersection.rules)
    return True  # by the number of versions, or not at all


def _check_clusters(table: Any, name: str, profile: str) -> None:
    clusters = len(table.cluster_states)
    if clusters > 1 and not profile:
        raise UnsafeStore(
            f"the table {name} is in {clusters} clusters, which do not see each other's writes at"
            " once: name an app profile that routes to one of them, by ?app_profile=, the same for"
            " all servers"
        )


def _parse_url(url: str) -> tuple[str, str, dict[str, str]]:
    """Return the full name of the instance, the name of the table, and the options."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    names = [parts.netloc, *parts.path.strip("/").split("/")]
    if len(names) != 3 or not all(map(_NAME.fullmatch, names)):  # noqa: PLR2004 - as in the example
        # Not what is there instead: some write credentials into a URL.
        raise InvalidArgument(
            f"the URL does not name a table: use {_EXAMPLE}; credentials come from the environment"
        )
    project, instance, table = names
    return f"projects/{project}/instances/{instance}", table, options


def _between(first: bytes, end: bytes) -> dict[str, object]:
    bounds = {"start_key_closed": first} | ({"end_key_open": end} if end else {})
    return {"row_ranges": [bounds]}


def _merge(replies: Any) -> Iterator[tuple[bytes, Cell]]:
    """Put rows together of the pieces in which they come; a large value is in several."""
    name, family, value = b"", "", b""
    for reply in replies:
        for chunk in reply._pb.chunks:  # noqa: SLF001 - its wrapper takes ten times as long
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
