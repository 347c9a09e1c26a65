"""Building what a commit holds: staged changes applied to the metarange of a head, or a merge.

A build reads sealed tokens, or the files of three metaranges, and writes files that are named by
their content. Proposals that it meets in a token are taken away for certain, or the build fails
(`cells`). It changes nothing else. So it may run in any process that sees the same store and
the same storage, and may be cut off and done again: all files are durable before the id of their
metarange is returned.

Python runs one thread of a process at a time, so a large build slows down all other requests of
its process. For large ones the engine can be given another `Build` and another `MergeBuild`, which
run elsewhere (`lakebed.engine.build_processes`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.base.runtime import Runtime
from lakebed.engine.committed import ChangeCounts, CommittedFor, Strategy
from lakebed.engine.metrics import BUILD_SECONDS
from lakebed.engine.model import Home, StagingToken
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import Cells
from lakebed.engine.staging.columns import ROWS_MIN
from lakebed.engine.staging.scan import StagedChanges, staged_edits
from lakebed.formats import MetaRangeID
from lakebed.kv import Store


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
    summary: ChangeCounts
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


class Builds:
    """Builds small contents in the process and thread of its caller, and hands large ones on."""

    def __init__(
        self,
        store: Store,
        committed_in: CommittedFor,
        runtime: Runtime,
        settings: EngineSettings,
        *,
        large: Build | None = None,
        large_merge: MergeBuild | None = None,
    ) -> None:
        self._store = store
        self._committed_in = committed_in
        self._runtime = runtime
        self._settings = settings
        self._large = large
        self._large_merge = large_merge

    def apply(self, request: BuildRequest) -> Built:
        """Apply tokens, which are scanned after this was called; return when files are durable.

        They are scanned for a small build. The scan is given up, and was in vain, if there turn out
        to be many keys, and large builds are made elsewhere.
        """
        limit = None if self._large is None else self._settings.large_commit_keys
        changes = StagedChanges(Cells.sealed(self._store, request.tokens), limit=limit)
        begun = self._runtime.monotonic()
        if self._large is not None and limit and len(changes.begin(limit)) == limit:
            begun, where = self._runtime.monotonic(), "process"
            built = self._large(request)
        else:
            where, committed = "here", self._committed_in(request.home)
            first = changes.begin(ROWS_MIN)
            if 0 < len(first) < ROWS_MIN:
                applied = committed.edit(request.base, [staged_edits(first)])
            else:
                applied = committed.apply(request.base, changes.tables())
            built = Built(applied.metarange_id, applied.summary, frozenset(changes.held))
        BUILD_SECONDS.labels(where).observe(self._runtime.monotonic() - begun)
        return built

    def merge(self, request: MergeBuildRequest) -> MetaRangeID:
        """Merge metaranges; return when files are durable, and raise as `Committed.merge` does."""
        committed = self._committed_in(request.home)
        large = self._large_merge
        rows = self._settings.large_merge_rows
        if large is not None and committed.is_long_merge(*request.three, long_rows=rows):
            return large(request)
        return committed.merge(*request.three, strategy=request.strategy)
