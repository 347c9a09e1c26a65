"""Committed entries: ranges and metaranges, and how to apply, diff, merge and list them.

Imports `lakebed.formats` and `lakebed.block`; neither records nor refs. Public: the names below;
`Committed` has the operations. See design/0004-committed-metadata.md.
"""

from lakebed.engine.committed.apply import Applied, Ingest, Interval
from lakebed.engine.committed.columns import CONFLICT_SCHEMA, DIFF_SCHEMA, ChangeCounts, ChangeType
from lakebed.engine.committed.files import Cache, Counters
from lakebed.engine.committed.listing import CommonPrefix, DiffEntry, EntryPage, EntryQuery, Folded
from lakebed.engine.committed.merge import Strategy
from lakebed.engine.committed.store import Committed, CommittedFor, committed_for
from lakebed.formats.boundaries import Breaks

__all__ = [
    "CONFLICT_SCHEMA",
    "DIFF_SCHEMA",
    "Applied",
    "Breaks",
    "Cache",
    "ChangeCounts",
    "ChangeType",
    "Committed",
    "CommittedFor",
    "CommonPrefix",
    "Counters",
    "DiffEntry",
    "EntryPage",
    "EntryQuery",
    "Folded",
    "Ingest",
    "Interval",
    "Strategy",
    "committed_for",
]
