"""The server's part of garbage collection: a snapshot of all referenced objects.

Everything is read in the direction in which objects move: open uploads, staged entries, commits. An
object that moves meanwhile is met later; none is missed. (Two moves go back, and are safe: a reset
stages a commit's entries, and commits are read last; an undone write restores an entry that its own
entry referenced all the time.) So nothing is read twice, and no writer has to wait.

1. **The run** is written first, with its cutoff: only objects written before the cutoff can be
   garbage. All other reading comes later, and whatever begins later is younger. The run references
   the commits *expired* before it (`lakebed.reclaim.expirer`): a copy or a new commit with content
   of such a commit was written before the expiry, and is met below.
2. **Links and multipart uploads**, all records. A staged link does not protect its object; its
   entry does: staged entries are read later.
3. **Staged entries** of every branch: of its staging token and of each sealed token, even entries
   hidden by a newer entry, since a commit in progress may still publish them; and the entries
   replaced under the same token, since they may be restored (see `lakebed.engine.staging.writer`).
4. **Commit records**, all of them, reachable or not, except the commits listed as expired in the
   run. Marks are not read again.

Steps 2 and 3 are done in pages, limited in objects, branches and seconds. A page stores the
position of the next page in terms of the records already read: the tokens of a branch are the
tokens of its record at the first read, even if pages come hours apart. A page is written once; a
repeated request returns it unchanged. An idle branch costs one scan for one key; many of these run
at the same time.
"""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from prometheus_client import Gauge

from lakebed.base.runtime import Runtime, UniqueID, now_us, to_us
from lakebed.base.tracing import traced
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.expiry_marks import read_expired, write_expired
from lakebed.engine.keys import COMMITS, STAGED_PREFIX
from lakebed.engine.model import MOVED_NAMESPACE, Branch, Repository, RepositoryID, StagingToken
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.dump import active_record
from lakebed.engine.repositories.ownership import installation_id
from lakebed.engine.staging.cells import all_values, parse_all
from lakebed.formats import AddressType
from lakebed.formats.gc_files import (
    GCAdopted,
    GCFile,
    GCFileKind,
    GCManifest,
    GCPage,
    GCRun,
    GCRunID,
)
from lakebed.kv import Item as StagedRecord
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.lake.errors import InvalidRun
from lakebed.lake.keys import LINKS, MULTIPARTS
from lakebed.lake.links import may_finish as may_finish_link
from lakebed.lake.multipart.records import may_finish as may_finish_multipart
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.backups import Backups
from lakebed.reclaim.expirer import Expirer
from lakebed.reclaim.runs import RunFiles, TableWriter

_RUN_ID: Final = re.compile(r"[0-9a-f]{36}")
_TOKEN: Final = re.compile(r"([0-9a-f]{36})\.([1-9][0-9]{0,8})")

_LOGGER: Final = logging.getLogger(__name__)
_LAST_PREPARED: Final = Gauge(
    "lakebed_gc_last_prepared_timestamp_seconds",
    "Time at which a garbage collection run was last prepared in any repository",
    multiprocess_mode="max",
)

# Number of branches read together, and of staged records read between two looks at the clock.
_BRANCHES: Final = 256
_RECORDS: Final = 1024

_RELATIVE: Final = int(AddressType.RELATIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """Limits of a page; each page makes progress, however small they are."""

    objects: int = 1_000_000
    branches: int = 10_000
    seconds: float = 30.0


DEFAULT_LIMITS: Final = PageLimits()


@dataclass(frozen=True, slots=True)
class Position:
    """Start of a page: after a branch, whose tokens may be partly unread."""

    after: str = ""
    tokens: tuple[StagingToken, ...] = ()
    """The unread tokens of the branch `after`, the first token from `key` on."""
    key: bytes = b""

    def encode(self) -> dict[str, object]:
        return {"after": self.after, "tokens": list(self.tokens), "key": self.key.hex()}

    @classmethod
    def decode(cls, content: dict[str, Any]) -> "Position":
        tokens = tuple(StagingToken(token) for token in content["tokens"])
        return cls(content["after"], tokens, bytes.fromhex(content["key"]))


class StagedWalk:
    """Writer of the staged entries of one page."""

    def __init__(
        self,
        branches: Branches,
        store: Store,
        runtime: Runtime,
        repository: Repository,
        files: RunFiles,
    ) -> None:
        self._branches = branches
        self._store = store
        self._runtime = runtime
        self._repository = repository
        self._writer = TableWriter(files, GCFileKind.STAGED)
        self._prefix = str(repository.namespace)

    @property
    def written(self) -> list[GCFile]:
        return self._writer.written

    def run(self, position: Position, limits: PageLimits) -> Position | None:
        """Write staged entries from a position on; return the next position, or None at the end."""
        following = self._run(position, limits)
        self._writer.flush()
        return following

    def _run(self, position: Position, limits: PageLimits) -> Position | None:
        deadline = self._runtime.monotonic() + limits.seconds
        looked_at = 0

        def is_full() -> bool:
            return self._writer.rows >= limits.objects or self._runtime.monotonic() >= deadline

        left = self._read(position, is_full)
        if left is not None:
            return left
        branches = self._branches.list_referencing(self._repository, after=position.after)
        while batch := list(islice(branches, min(_BRANCHES, limits.branches))):
            busy = self._runtime.map_parallel(self._is_busy, batch)
            for branch, has_entries in zip(batch, busy, strict=True):
                position = Position(branch.id, branch.tokens if has_entries else ())
                left = self._read(position, is_full)
                if left is not None:
                    return left
            looked_at += len(batch)
            if is_full() or looked_at >= limits.branches:
                return Position(batch[-1].id)
        return None

    def _is_busy(self, branch: Branch) -> bool:
        scans = (
            self._store.scan(token.encode(), STAGED_PREFIX, limit=1) for token in branch.tokens
        )
        return any(next(scan, None) is not None for scan in scans)

    def _read(self, position: Position, is_full: Callable[[], bool]) -> Position | None:
        """Read the rest of the tokens of a branch; return the position if the page is full."""
        key = position.key
        for number, token in enumerate(position.tokens):
            for page in self._pages(token, key):
                self._writer.add(self._addresses(page))
                if is_full():
                    tokens = position.tokens[number:]
                    return Position(position.after, tokens, page[-1].key + b"\x00")
            key = b""
        return None

    def _pages(self, token: StagingToken, key: bytes) -> Iterator[list[StagedRecord]]:
        records = self._store.scan(token.encode(), key or STAGED_PREFIX)
        while page := list(islice(records, _RECORDS)):
            yield page

    def _addresses(self, page: list[StagedRecord]) -> list[str]:
        """Return the addresses in values and proposals; a tombstone has none."""
        rows = list(all_values(page))
        messages = [message for message in parse_all(rows) if message.identity]
        prefix = self._prefix
        named = [
            prefix + entry.address if entry.address_type == _RELATIVE else entry.address
            for entry in (message.entry for message in messages)
        ]
        # A replaced object may be restored.
        replaced = [message.replaced_address for message in messages]
        return named + [
            address if "://" in address else prefix + address for address in replaced if address
        ]


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Result of preparing a page or a run."""

    run_id: GCRunID
    location: str
    """The folder with the files of the run."""
    continuation_token: str | None = None
    """Token of the next page, or None after the last page."""


class GCPreparation:
    """Preparation of garbage collection runs."""

    def __init__(
        self,
        engine: Engine,
        expirer: Expirer,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        backups: Backups,
    ) -> None:
        self._engine = engine
        self._expirer = expirer
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._backups = backups

    @traced("catalog.prepare_gc_uncommitted")
    def prepare_uncommitted(
        self,
        repository_id: RepositoryID,
        *,
        unique_id: UniqueID | None = None,
        token: str | None = None,
        limits: PageLimits = DEFAULT_LIMITS,
    ) -> PreparedRun:
        """Begin or continue a run: write a page of open uploads and staged entries.

        Without `token`, the continuation token of the previous page, a run begins.

        Raises:
            RepositoryNotFound: The repository does not exist, or has another unique id.
            InvalidRun: No page can be continued with this token.
            BlockError: The storage refused or failed; a retry is safe.
        """
        repository = self._repository(repository_id, unique_id)
        if token is None:
            run = self._begin(repository, with_uploads=True)
            return self._page(repository, run.run_id, 0, Position(), limits)
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise InvalidRun(f"invalid continuation token '{token}'")
        run_id, number = GCRunID(match[1]), int(match[2])
        before = self._files(repository, run_id).find_page(number - 1)
        if before is None or before.following is None:
            raise InvalidRun(
                f"repository {repository_id} has no page before continuation token '{token}'"
            )
        position = Position.decode(before.following)
        return self._page(repository, run_id, number, position, limits)

    @traced("catalog.prepare_gc_commits")
    def prepare_commits(
        self,
        repository_id: RepositoryID,
        *,
        unique_id: UniqueID | None = None,
        run_id: GCRunID | None = None,
    ) -> PreparedRun:
        """Finish a run: write all unexpired commit records, and the manifest.

        All pages of `run_id` must be written. Without `run_id`, begin a run of commits alone, by
        which no object can be judged to be garbage. Raises as `prepare_uncommitted`; `InvalidRun`
        if the run does not exist, or has missing pages.
        """
        repository = self._repository(repository_id, unique_id)
        if run_id is None:
            run = self._begin(repository, with_uploads=False)
            files = self._files(repository, run.run_id)
        else:
            files = self._files(repository, run_id)
            run = files.read_run()
        if files.find_manifest() is None:
            pages = files.pages() if run.with_uploads else ()
            before = [file for page in pages for file in page.files]
            expired = read_expired(
                self._block, repository.namespace, repository.unique_id, run.expired
            )
            commits = self._write_commits(
                repository, files, GCFileKind.COMMITS, lambda each: each not in expired
            )
            tables = (*before, *commits)
            files.create_manifest(GCManifest(run=run, ended_us=now_us(self._runtime), files=tables))
            _LOGGER.info("garbage collection run %s is prepared: %d files", run.run_id, len(tables))
            if run.with_uploads:
                _LAST_PREPARED.set(self._runtime.now())
        return PreparedRun(run.run_id, files.location)

    @traced("catalog.write_old_commits")
    def write_old_commits(
        self,
        repository_id: RepositoryID,
        *,
        unique_id: UniqueID | None = None,
        run_id: GCRunID,
        since_us: int,
        dry_run: bool,
    ) -> tuple[GCFile, ...]:
        """Write the commits expired since `since_us` or, if `dry_run`, about to expire.

        They are for the report of the run. Only a dry run, which deletes nothing, judges by them.
        Raises as `prepare_commits`.
        """
        repository = self._repository(repository_id, unique_id)
        files = self._files(repository, run_id)
        files.read_run()
        if dry_run:
            old = self._expirer.unkept(repository)
        else:
            old = set(self._engine.marks.expired(repository, since_us=since_us))
        # After a restore, marks of missing commits may exist.
        written = self._write_commits(repository, files, GCFileKind.OLD, lambda each: each in old)
        return tuple(written)

    def _repository(self, repository_id: RepositoryID, unique_id: UniqueID | None) -> Repository:
        repository = self._engine.repositories.get(repository_id)
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        return repository

    def _files(self, repository: Repository, run_id: GCRunID) -> RunFiles:
        if not _RUN_ID.fullmatch(run_id):
            raise InvalidRun(f"invalid run id '{run_id}'")
        return RunFiles(self._block, self._runtime, repository, run_id)

    def _begin(self, repository: Repository, *, with_uploads: bool) -> GCRun:
        """Step 1."""
        now = self._runtime.now()
        settings = self._settings
        run_id = GCRunID(f"{to_us(now):016x}{self._runtime.random_bytes(10).hex()}")
        self._backups.begin(repository, run_id=run_id)
        run = GCRun(
            run_id=run_id,
            installation_id=installation_id(self._store, self._runtime),
            repository=repository.id,
            unique_id=repository.unique_id,
            adopted_unique_ids=tuple(
                active_record(self._store, repository).message.adopted_unique_ids
            ),
            storage_namespace=str(repository.namespace),
            adopted=_adopted(repository),
            left_alone="" if repository.adopted else repository.metadata.get(MOVED_NAMESPACE, ""),
            began_us=to_us(now),
            cutoff_us=to_us(now - settings.min_age_seconds - settings.skew_seconds),
            gap_us=to_us(settings.gap_seconds),
            partition_open_us=to_us(settings.partition_open_seconds),
            with_uploads=with_uploads,
            expired=write_expired(self._block, repository, self._engine.marks.expired(repository)),
        )
        self._files(repository, run.run_id).create_run(run)
        _LOGGER.info("garbage collection run %s begins in repository %s", run.run_id, repository.id)
        return run

    def _page(
        self,
        repository: Repository,
        run_id: GCRunID,
        number: int,
        position: Position,
        limits: PageLimits,
    ) -> PreparedRun:
        files = self._files(repository, run_id)
        page = files.find_page(number)
        if page is None:
            uploads = self._write_uploads(repository, files) if number == 0 else []
            walk = StagedWalk(self._engine.branches, self._store, self._runtime, repository, files)
            following = walk.run(position, limits)
            page = files.create_page(
                GCPage(
                    run_id=run_id,
                    number=number,
                    files=(*uploads, *walk.written),
                    following=None if following is None else following.encode(),
                )
            )
        token = None if page.following is None else f"{run_id}.{number + 1}"
        return PreparedRun(run_id, files.location, token)

    def _write_uploads(self, repository: Repository, files: RunFiles) -> list[GCFile]:
        """Step 2."""
        writer = TableWriter(files, GCFileKind.UPLOADS)
        address = repository.namespace.address
        now, broken = self._runtime.now(), list[bytes]()
        partition = repository.partition
        multiparts = Records(self._store, MULTIPARTS, partition).scan_readable(broken.append)
        while page := [record.message for record in islice(multiparts, _RECORDS)]:
            texts = [str(address(each.address)) for each in page]
            is_open = [may_finish_multipart(each, self._settings, now) for each in page]
            writer.add(texts, ["multipart"] * len(page), is_open)
        records = Records(self._store, LINKS, partition).scan_readable(broken.append)
        links = (
            record.message
            for record in records
            if may_finish_link(record.message, self._settings, now)
        )
        while found := list(islice(links, _RECORDS)):
            texts = [str(address(each.address)) for each in found]
            writer.add(texts, ["link"] * len(found), [True] * len(found))
        # The objects of open uploads are protected by their age alone. A run without concurrent
        # writers ignores ages: it counts damaged records as open uploads, and does not begin.
        unknown = str(address("unreadable"))
        writer.add([unknown] * len(broken), ["unreadable"] * len(broken), [True] * len(broken))
        writer.flush()
        return writer.written

    def _write_commits(
        self,
        repository: Repository,
        files: RunFiles,
        kind: GCFileKind,
        is_meant: Callable[[str], bool],
    ) -> list[GCFile]:
        """Step 4, and likewise for old commits."""
        writer = TableWriter(files, kind)
        commits = (
            record
            for record in Records(self._store, COMMITS, repository.partition).scan()
            if is_meant(record.name.decode())
        )
        while page := list(islice(commits, _RECORDS)):
            writer.add(
                [record.name.decode() for record in page],
                [record.message.metarange_id for record in page],
            )
        writer.flush()
        return writer.written


def _adopted(repository: Repository) -> tuple[GCAdopted, ...]:
    found = repository.adopted
    if found is None:
        return ()
    return (GCAdopted(str(found.namespace), found.adopted_us),)
