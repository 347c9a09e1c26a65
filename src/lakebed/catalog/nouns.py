"""The nouns of the layers below that the doors need: ids, records, queries, ranges of bytes.

The doors import them from here, so that they depend on one package. Inside the catalog they are
imported from where they are defined.
"""

from lakebed.block import Address, Between, ByteRange, ByteStream, FromOffset, Suffix
from lakebed.block.ranges import resolve as resolve_range
from lakebed.catalog.repeats import Invocation
from lakebed.engine.acting import acting_as, skipping_hooks
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import ChangeType, CommonPrefix, Page, Query, Strategy
from lakebed.engine.model import (
    Branch,
    BranchID,
    Commit,
    Repository,
    RepositoryID,
    Tag,
    TagID,
)
from lakebed.engine.names import is_commit_id
from lakebed.engine.read_only import read_only_lifted
from lakebed.engine.staging.writer import Condition
from lakebed.formats import DumpID, Entry
from lakebed.formats.gc_files import GCRunID

__all__ = [
    "Address",
    "Between",
    "Branch",
    "BranchID",
    "ByteRange",
    "ByteStream",
    "ChangeType",
    "Commit",
    "CommitRequest",
    "CommonPrefix",
    "Condition",
    "DumpID",
    "Entry",
    "FromOffset",
    "GCRunID",
    "Invocation",
    "MergeRequest",
    "Page",
    "Query",
    "Repository",
    "RepositoryID",
    "Strategy",
    "Suffix",
    "Tag",
    "TagID",
    "acting_as",
    "is_commit_id",
    "read_only_lifted",
    "resolve_range",
    "skipping_hooks",
]
