"""Building what a commit holds: staged changes applied to the metarange of a head, or a merge.

A build reads sealed tokens, or the files of three metaranges, and writes files that are named by
their content. Proposals that it meets in a token are taken away for certain, or the build fails
(`cells`). It changes nothing else. So it may run in any process that sees the same store and
the same storage, and may be cut off and done again: all files are durable before the id of their
metarange is returned.

Python runs one thread of a process at a time, so a large build slows down all other requests of
its process. For large ones the engine can be given another `Build` and another `MergeBuild`, which
run elsewhere (`lakebed.builders`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.engine.committed import CommittedFor, Strategy, Summary
from lakebed.engine.metrics import BUILD_SECONDS
from lakebed.engine.model import Home, StagingToken
from lakebed.engine.staging.cells import Cells
from lakebed.engine.staging.columns import ROWS_MIN
from lakebed.engine.staging.scan import StagedChanges, staged_edits
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


@dataclass(frozen=True, slots=True)
class MergeBuildRequest:
    """What to merge: the three metaranges of `Committed.merge`."""

    home: Home
    base: MetaRangeID
    source: MetaRangeID
    destination: MetaRangeID
    strategy: Strategy | None

    @property
    def three(self) -> tuple[MetaRangeID, MetaRangeID, MetaRangeID]:
        """Base, source and destination."""
        return self.base, self.source, self.destination


MergeBuild = Callable[[MergeBuildRequest], MetaRangeID]
"""Merges metaranges, and returns when all files are durable; raises as `Committed.merge` does."""


class Forecast:
    """Says when a large build is likely to be asked for soon, so that a process for it can start.

    To start one takes longer than to build a hundred thousand entries. A large commit follows on
    many writes, so it is foreseen when there were as many since the last commit as make one large.
    Threads count without a lock: to be a few writes early or late does no harm.
    """

    def __init__(self, foreseen: Callable[[], None] | None, *, large_keys: int) -> None:
        self._foreseen = foreseen
        self._large_keys = large_keys
        self._writes = 0

    def count_write(self) -> None:
        """Count a write of one key."""
        self._writes += 1
        if self._writes >= self._large_keys:
            self._writes = 0
            if self._foreseen is not None:
                self._foreseen()

    def count_commit(self) -> None:
        """Begin to count anew."""
        self._writes = 0


def build_here(store: Store, committed_in: CommittedFor) -> Build:
    """Return a function that builds in the process and the thread of its caller."""

    def build(request: BuildRequest) -> Built:
        changes = StagedChanges(Cells.sealed(store, request.tokens))
        return _apply(committed_in, request, changes)

    return build


def build_by_size(
    store: Store, committed_in: CommittedFor, runtime: Runtime, large: Build, *, large_keys: int
) -> Build:
    """Return a function that builds here what is small, and gives the rest to another `Build`.

    The tokens are scanned for the small build. The scan is given up, and was in vain, if there turn
    out to be `large_keys` keys.
    """

    def build(request: BuildRequest) -> Built:
        changes = StagedChanges(Cells.sealed(store, request.tokens), limit=large_keys)
        if len(changes.begin(large_keys)) == large_keys:
            return large(request)
        small: Build = lambda request: _apply(committed_in, request, changes)  # noqa: E731
        return measured(small, runtime, where="here")(request)

    return build


def merge_here(committed_in: CommittedFor) -> MergeBuild:
    """Return a function that merges in the process and the thread of its caller."""

    def merge(request: MergeBuildRequest) -> MetaRangeID:
        return committed_in(request.home).merge(*request.three, strategy=request.strategy)

    return merge


def merge_by_size(committed_in: CommittedFor, large: MergeBuild, *, large_rows: int) -> MergeBuild:
    """Return a function that merges here what is small, and gives the rest to another."""
    here = merge_here(committed_in)

    def merge(request: MergeBuildRequest) -> MetaRangeID:
        committed = committed_in(request.home)
        is_large = committed.is_long_merge(*request.three, long_rows=large_rows)
        return large(request) if is_large else here(request)

    return merge


def measured(build: Build, runtime: Runtime, *, where: str) -> Build:
    """Return a function that builds, and measures how long that takes."""

    def measure(request: BuildRequest) -> Built:
        begun = runtime.monotonic()
        built = build(request)
        BUILD_SECONDS.labels(where).observe(runtime.monotonic() - begun)
        return built

    return measure


def _apply(committed_in: CommittedFor, request: BuildRequest, changes: StagedChanges) -> Built:
    committed = committed_in(request.home)
    first = changes.begin(ROWS_MIN)
    if 0 < len(first) < ROWS_MIN:
        applied = committed.edit(request.base, staged_edits(first))
    else:
        applied = committed.apply(request.base, changes.tables())
    return Built(applied.metarange_id, applied.summary, frozenset(changes.held))
