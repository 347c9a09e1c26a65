"""Building what a commit holds: staged changes applied to the metarange of a head.

A build reads staging tokens and writes files that are named by their content. It changes nothing
else. So it may run in any process that sees the same store and the same storage, and may be cut off
and done again: all files are durable before the id of their metarange is returned.

Python runs one thread of a process at a time, so a large build slows down all other requests of
its process. The engine can be given another `Build` for large ones (`lakebed.builders`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice

from lakebed.engine.committed import CommittedFor, Summary
from lakebed.engine.metrics import BUILD_SECONDS
from lakebed.engine.model import Home, StagingToken
from lakebed.engine.staging.scan import StagedChanges
from lakebed.formats import MetaRangeID
from lakebed.kv import Store
from lakebed.runtime import Runtime


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build."""

    home: Home
    base: MetaRangeID
    tokens: tuple[StagingToken, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of applying tokens to a metarange."""

    metarange_id: MetaRangeID
    summary: Summary
    held: frozenset[StagingToken]
    """Those of the tokens that held changes when they were scanned."""


Build = Callable[[BuildRequest], Built]
"""Scans the tokens after it was called, and returns when all files are durable."""


def build_here(store: Store, committed_in: CommittedFor) -> Build:
    """Return a function that builds in the process and the thread of its caller."""

    def build(request: BuildRequest) -> Built:
        changes = StagedChanges(store, request.tokens)
        applied = committed_in(request.home).apply(request.base, changes.tables())
        return Built(applied.metarange_id, applied.summary, frozenset(changes.held))

    return build


def build_by_size(store: Store, small: Build, large: Build, *, large_keys: int) -> Build:
    """Return a function that looks how many keys are staged, and then builds in one of two ways."""

    def build(request: BuildRequest) -> Built:
        return (large if _has_keys(store, request, large_keys) else small)(request)

    return build


def measured(build: Build, runtime: Runtime, *, where: str) -> Build:
    """Return a function that builds, and measures how long that takes."""

    def measure(request: BuildRequest) -> Built:
        begun = runtime.monotonic()
        built = build(request)
        BUILD_SECONDS.labels(where).observe(runtime.monotonic() - begun)
        return built

    return measure


def _has_keys(store: Store, request: BuildRequest, count: int) -> bool:
    """Whether the tokens hold so many keys; no more than that are read."""
    scans = (store.scan(token.encode(), limit=count) for token in request.tokens)
    keys = islice(chain.from_iterable(scans), count)
    return sum(1 for _ in keys) == count
