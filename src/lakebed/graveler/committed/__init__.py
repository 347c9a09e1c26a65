"""Committed metadata: ranges and metaranges; see `Committed`."""

from lakebed.graveler.committed.apply import Applied
from lakebed.graveler.committed.breaks import Breaks
from lakebed.graveler.committed.cache import Cache, DiskCache
from lakebed.graveler.committed.committed import Committed
from lakebed.graveler.committed.files import Counters
from lakebed.graveler.committed.listing import CommonPrefix, DiffEntry, Page, Query
from lakebed.graveler.committed.merge import Strategy
from lakebed.graveler.committed.rows import CONFLICT_SCHEMA, DIFF_SCHEMA, ChangeType, Summary

__all__ = [
    "CONFLICT_SCHEMA",
    "DIFF_SCHEMA",
    "Applied",
    "Breaks",
    "Cache",
    "ChangeType",
    "Committed",
    "CommonPrefix",
    "Counters",
    "DiffEntry",
    "DiskCache",
    "Page",
    "Query",
    "Strategy",
    "Summary",
]
