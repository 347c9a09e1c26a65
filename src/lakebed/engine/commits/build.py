"""Building what a commit holds: staged tokens applied to the metarange of a head.

A build reads tokens and writes files that are named by their content, and changes nothing else. So
it may run anywhere that sees the same store and the same storage, and be cut off and done again:
files are durable before their metarange's id is known, and whoever has the id has all of it.

Python runs one thread of a process at a time, so a large build slows down all writers of its
process. The engine can be given a `Build` for large ones that runs elsewhere (`lakebed.builders`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from lakebed.block import Namespace
from lakebed.engine.committed import Committed, Summary
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.scan import StagedChanges
from lakebed.formats import MetaRangeID
from lakebed.kv import Store

LARGE_BUILD: Final = 1000
"""From this many staged keys on a build is large: it takes longer than it takes to send it away."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build."""

    namespace: Namespace
    base: MetaRangeID
    tokens: tuple[StagingToken, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Built:
    """What applying tokens to a metarange made."""

    metarange_id: MetaRangeID
    summary: Summary
    held: frozenset[StagingToken]
    """Those of the tokens that held changes when they were scanned."""


Build = Callable[[BuildRequest], Built]
"""Scans the tokens after it was called, and returns when all files are durable."""


def build_here(store: Store, committed_in: Callable[[Namespace], Committed]) -> Build:
    """Return a function that builds in the process, and the thread, of its caller."""

    def build(request: BuildRequest) -> Built:
        changes = StagedChanges(store, request.tokens)
        applied = committed_in(request.namespace).apply(request.base, changes.tables())
        return Built(applied.metarange_id, applied.summary, frozenset(changes.held))

    return build


def build_by_size(store: Store, small: Build, large: Build) -> Build:
    """Return a function that looks how much is staged, and then builds in one way or the other."""

    def build(request: BuildRequest) -> Built:
        return (large if _is_large(store, request) else small)(request)

    return build


def _is_large(store: Store, request: BuildRequest) -> bool:
    """Whether tokens hold many keys; at most so many are read."""
    scans = (store.scan(token.encode(), limit=LARGE_BUILD) for token in request.tokens)
    keys = islice(chain.from_iterable(scans), LARGE_BUILD)
    return sum(1 for _ in keys) == LARGE_BUILD
