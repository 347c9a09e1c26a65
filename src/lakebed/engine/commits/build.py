"""Builds of a commit's entries: staged changes applied to a head's metarange, or a merge.

A build reads sealed tokens, or the files of three metaranges, and writes files named by their
content. It invalidates every proposal found in a token, or fails (`cells`), and changes no other
state. So any process with access to the store and the storage may run, interrupt and repeat a
build: all files are durable before the id of their metarange is returned.

Python runs one thread of a process at a time, so a large build slows down all other requests of its
process. For large builds the engine accepts another `Build` and `MergeBuild`, which run elsewhere
(`lakebed.engine.build_processes`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.base.runtime import Runtime
from lakebed.engine.committed import ChangeCounts, CommittedFor, Strategy
from lakebed.engine.metrics import BUILD_SECONDS
from lakebed.engine.model import FilesRoot, StagingToken
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import Cells
from lakebed.engine.staging.columns import ROWS_MIN
from lakebed.engine.staging.scan import StagedChanges, staged_edits
from lakebed.formats import MetaRangeID
from lakebed.kv import Store


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """Input of a build: tokens to apply to a metarange."""

    files_root: FilesRoot
    base: MetaRangeID
    tokens: tuple[StagingToken, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Built:
    """Result of applying tokens to a metarange."""

    metarange_id: MetaRangeID
    summary: ChangeCounts
    nonempty: frozenset[StagingToken]
    """The tokens with changes at the time of the scan."""


Build = Callable[[BuildRequest], Built]
"""Scans the tokens during the call, and returns when all files are durable."""


@dataclass(frozen=True, slots=True)
class MergeBuildRequest:
    """The three metaranges of `Committed.merge`."""

    files_root: FilesRoot
    base: MetaRangeID
    source: MetaRangeID
    destination: MetaRangeID
    strategy: Strategy | None

    @property
    def three(self) -> tuple[MetaRangeID, MetaRangeID, MetaRangeID]:
        """Base, source and destination."""
        return self.base, self.source, self.destination


MergeBuild = Callable[[MergeBuildRequest], MetaRangeID]
"""Merges metaranges; returns when all files are durable, raises as `Committed.merge`."""


class Forecast:
    """Forecast of large builds, so that a process can start ahead of them.

    Starting a process takes longer than building a hundred thousand entries. A large commit is
    likely once the writes since the last commit would fill one. Threads count without a lock: an
    error of a few writes does no harm.
    """

    def __init__(self, on_forecast: Callable[[], None] | None, *, large_keys: int) -> None:
        self._on_forecast = on_forecast
        self._large_keys = large_keys
        self._writes = 0

    def count_write(self) -> None:
        self._writes += 1
        if self._writes >= self._large_keys:
            self._writes = 0
            if self._on_forecast is not None:
                self._on_forecast()

    def count_commit(self) -> None:
        self._writes = 0


class Builds:
    """Builds small contents in the caller's thread, and delegates large ones."""

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
        """Apply tokens, scanned during this call; return when files are durable.

        If the scan for a small build finds many keys, and large builds run elsewhere, it is
        abandoned.
        """
        limit = None if self._large is None else self._settings.large_commit_keys
        changes = StagedChanges(Cells(self._store, request.tokens), limit=limit)
        begun = self._runtime.monotonic()
        if self._large is not None and limit and len(changes.begin(limit)) == limit:
            begun, where = self._runtime.monotonic(), "process"
            built = self._large(request)
        else:
            where, committed = "here", self._committed_in(request.files_root)
            first = changes.begin(ROWS_MIN)
            if 0 < len(first) < ROWS_MIN:
                applied = committed.edit(request.base, [staged_edits(first)])
            else:
                applied = committed.apply(request.base, changes.tables())
            built = Built(applied.metarange_id, applied.summary, frozenset(changes.nonempty))
        BUILD_SECONDS.labels(where).observe(self._runtime.monotonic() - begun)
        return built

    def merge(self, request: MergeBuildRequest) -> MetaRangeID:
        """Merge metaranges; return when files are durable. Raises as `Committed.merge`."""
        committed = self._committed_in(request.files_root)
        large = self._large_merge
        rows = self._settings.large_merge_rows
        if large is not None and committed.is_long_merge(*request.three, long_rows=rows):
            return large(request)
        return committed.merge(*request.three, strategy=request.strategy)
