"""Explanations of why an object or a commit is kept or deleted, in sentences for users.

The decisions are made by `rules` and `lakebed.reclaim.expirer`; this module reads the same inputs
for one object or commit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ObjectInfo, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.expiry_marks import EXPIRED
from lakebed.engine.model import Commit, CommitID, Repository, RepositoryID
from lakebed.engine.refs.dump import active_record
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import Store
from lakebed.lake import records_pb2 as pb
from lakebed.lake.links import may_finish as may_finish_link
from lakebed.lake.model import stats_of
from lakebed.lake.multipart.records import may_finish as may_finish_multipart
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.expirer import Expirer
from lakebed.reclaim.references import References
from lakebed.reclaim.retention import CommitRetention
from lakebed.reclaim.runs import GCFindings, GCRuns

Verdict = Literal["kept", "going", "gone"]
_NEVER: Final = 1 << 62
_NO_OBJECT: Final = "The storage does not contain the object."


@dataclass(frozen=True, slots=True)
class Explanation:
    """Verdict of garbage collection on an object or a commit, with reasons."""

    subject: str
    verdict: Verdict
    """``kept``: referenced; ``going``: unreferenced, to be deleted; ``gone``: its data is deleted,
    or may be."""
    reasons: list[str]


class Explanations:
    """Explanations for objects and commits of all repositories."""

    def __init__(
        self,
        engine: Engine,
        expirer: Expirer,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        purge_marks: PurgeMarks,
        runs: GCRuns,
    ) -> None:
        self._engine = engine
        self._expirer = expirer
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._purge_marks = purge_marks
        self._runs = runs

    @traced("catalog.explain_commit")
    def commit(self, repository_id: RepositoryID, ref: str) -> Explanation:
        """Explain why the commit at a ref is kept or expires; raises as `object`."""
        repository = self._engine.repositories.get(repository_id)
        commit = self._engine.resolver.commit(repository, ref)
        (retention,) = self._expirer.retention_of(repository, [commit.id])
        verdict: Verdict = (
            "gone" if retention.expired_us else "kept" if retention.stays else "going"
        )
        return Explanation(
            f"commit {commit.id}", verdict, [*self._of_retention(repository, retention)]
        )

    @traced("catalog.explain_object")
    def object(self, repository_id: RepositoryID, ref: str, path: bytes) -> Explanation:
        """Explain why the bytes of an object at a ref are kept or were deleted.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef, EntryNotFound: The object does not exist.
            UnreadableAddress: Its entry has an unreadable address.
            MissingFile, DamagedFile, ForeignFile: A commit is unreadable.
        """
        repository, entry = self._engine.reader.find(repository_id, ref, path)
        shown = self._engine.resolver.resolve(repository, ref)
        address = stats_of(repository.namespace, entry).address
        return self._of_address(repository, address, shown.commit_id)

    @traced("catalog.explain_address")
    def address(self, repository_id: RepositoryID, address: Address) -> Explanation:
        """Explain why the object at an address of the storage is kept or was deleted.

        Raises as `object`.
        """
        return self._of_address(self._engine.repositories.get(repository_id), address, None)

    # Objects

    def _of_address(
        self, repository: Repository, address: Address, shown_by: CommitID | None
    ) -> Explanation:
        stored = self._stored(address)
        foreign = self._of_foreign(repository, address)
        if foreign is not None and stored is not None:
            return Explanation(str(address), "kept", [foreign])
        if foreign is not None:
            return Explanation(str(address), "gone", [_NO_OBJECT])
        references = References(self._engine, self._store, repository, address)
        reasons = [*self._of_purge(address)]
        kept = [*self._of_uploads(references), *self._of_staged(references)]
        verdict, committed = self._of_commits(
            repository, references, shown_by, is_deleted=stored is None
        )
        if stored is None:
            path = _path(repository, address)
            reasons += [
                _NO_OBJECT,
                *self._of_report(repository, path),
            ]
            return Explanation(str(address), "gone", [*reasons, *kept, *committed])
        reasons += [*kept, *committed]
        if not kept and verdict != "kept":
            reasons += self._of_garbage(repository, stored)
        return Explanation(str(address), "kept" if kept else verdict, reasons)

    def _of_foreign(self, repository: Repository, address: Address) -> str | None:
        """Return why garbage collection never touches an object, or None if it may."""
        if repository.has_adopted(str(address)):
            return None
        inside = address in repository.namespace
        issued = ObjectPath.parse(repository.namespace.relative(address)) if inside else None
        if issued is None:
            return "It was imported or written by another program: runs never delete it."
        adopted = active_record(self._store, repository).message.adopted_unique_ids
        if issued.repository_uid not in {repository.unique_id, *adopted}:
            return (
                f"It belongs to an earlier repository with unique id {issued.repository_uid}: runs"
                " of this repository never delete it."
            )
        return None

    def _of_purge(self, address: Address) -> Iterator[str]:
        mark = self._purge_marks.find(address)
        if mark is not None and mark.purged_us:
            yield f"It was purged on {_day(mark.purged_us)}: {mark.reason}."
        elif mark is not None:
            yield (
                f"A purge was requested on {_day(mark.requested_us)}, and has not deleted it yet:"
                f" {mark.reason}."
            )

    def _of_uploads(self, references: References) -> Iterator[str]:
        upload, settings, now = references.upload(), self._settings, self._runtime.now()
        if isinstance(upload, pb.Link) and may_finish_link(upload, settings, now):
            yield (
                f"Its address was issued for {quoted(upload.path)} on branch {upload.branch} and is"
                " not linked yet: retained until the link expires, after"
                f" {_day(upload.expires_us)}."
            )
        elif isinstance(upload, pb.MultipartUpload) and may_finish_multipart(upload, settings, now):
            yield (
                f"A multipart upload to {quoted(upload.path)} on branch {upload.branch} is not"
                " finished: retained until the upload is completed or ended (`lakebed gc uploads`)."
            )

    def _of_staged(self, references: References) -> Iterator[str]:
        for name in references.staged():
            if name.is_replaced:
                yield (
                    f"A staged write to {quoted(name.path)} on branch {name.branch} replaced it:"
                    " retained until the write is committed, reset or replaced."
                )
            else:
                yield f"It is staged on branch {name.branch} as {quoted(name.path)}: retained."

    def _of_commits(
        self,
        repository: Repository,
        references: References,
        shown_by: CommitID | None,
        *,
        is_deleted: bool,
    ) -> tuple[Verdict, list[str]]:
        """Find a commit that references an object, preferably a kept commit.

        For a deleted object, find a published commit: the record of a refused commit may reference
        the object, and keeps nothing.
        """
        unkept = self._expirer.unkept(repository)
        expired = {
            CommitID(mark.name.decode()): mark.message.expired_us
            for mark in self._engine.marks.records(repository).scan_readable()
            if mark.message.state == EXPIRED
        }
        heads = {branch.commit_id for branch in self._engine.branches.list(repository)}

        def taken_too_late(commit: Commit) -> list[CommitID]:
            """Return the sources that had expired when a commit was stored: it was refused."""
            return [each for each in commit.sources if expired.get(each, _NEVER) < commit.stored_us]

        def order(commit: Commit) -> tuple[bool, bool, bool, bool, bool, int]:
            # Kept commits first, and among them the shortest explanation.
            refused = is_deleted and bool(taken_too_late(commit))
            later = commit.id != shown_by, commit.id not in heads
            return refused, commit.id in expired, commit.id in unkept, *later, commit.stored_us

        commits = sorted(self._engine.commits.list(repository), key=order)
        found = references.committed(commits, skew_us=to_us(self._settings.skew_seconds))
        if found is None:
            return "going", []
        commit, path = found
        reasons = [f"Commit {commit.id} references it as {quoted(path)}."]
        reasons += [
            f"That commit was refused: its source commit {source} had expired."
            for source in taken_too_late(commit)[:1]
        ]
        if is_deleted and commit.id not in expired:
            return "going", reasons
        (retention,) = self._expirer.retention_of(repository, [commit.id])
        reasons += [f"Of that commit: {each}" for each in self._of_retention(repository, retention)]
        if retention.expired_us:
            return "going", [*reasons, "No unexpired commit references it."]
        if not retention.stays:
            reasons.append(
                "No kept commit references it: it becomes garbage when this commit expires."
            )
        return "kept", reasons

    def _of_garbage(self, repository: Repository, stored: ObjectInfo) -> Iterator[str]:
        settings, path = self._settings, _path(repository, stored.address)
        issued, adopted = ObjectPath.parse(path), repository.adopted
        since_us = issued.issued_us if issued else adopted.adopted_us if adopted else 0
        born_us = max(since_us, to_us(stored.mtime.timestamp()))
        old_us = born_us + to_us(settings.min_age_seconds + settings.skew_seconds)
        if old_us > now_us(self._runtime):
            yield (f"It is unreferenced, but too recent: it can be garbage from {_day(old_us)} on.")
            return
        gap_us = to_us(settings.gap_seconds)
        found_us = GCFindings(self._block, self._runs, repository).found_us(path)
        if found_us:
            yield (
                f"It is unreferenced: a run found it on {_day(found_us)}, and the first run that"
                f" begins after {_day(found_us + gap_us)} deletes it."
            )
        else:
            yield (
                "It is unreferenced: the next run finds it, and a run that begins at least"
                f" {settings.gap_seconds:g} seconds later deletes it."
            )

    def _of_report(self, repository: Repository, path: str) -> Iterator[str]:
        deleted = GCFindings(self._block, self._runs, repository).deleted_by(path)
        if deleted is not None:
            run_id, began = deleted
            moment = began.isoformat(" ", "seconds")
            yield f"Garbage collection run {run_id}, which began on {moment}, deleted it."
        else:
            yield "No stored report lists it as deleted by garbage collection."

    def _stored(self, address: Address) -> ObjectInfo | None:
        try:
            return self._block.head(address)
        except ObjectNotFound:
            return None

    # Commits

    def _of_retention(self, repository: Repository, retention: CommitRetention) -> Iterator[str]:
        if retention.expired_us:
            yield f"It expired permanently on {_day(retention.expired_us)}: no rule kept it."
            return
        yield from self._kept_by(repository, retention)
        if retention.stays and retention.marked_us:
            yield (
                f"It was marked on {_day(retention.marked_us)}, when no rule kept it: the next run"
                " removes the mark."
            )
        elif retention.marked_us:
            yield (
                f"No rule keeps it. It was marked on {_day(retention.marked_us)}, and expires with"
                f" the first run after {_day(retention.marked_us + retention.expiring_us)}, unless"
                " a branch or a tag is created there."
            )
        elif not retention.stays:
            yield (
                "No rule keeps it: the next run marks it, and it expires with a run that begins"
                f" {retention.expiring_us // 1_000_000} seconds later or more, unless a branch or a"
                " tag is created there."
            )

    def _kept_by(self, repository: Repository, retention: CommitRetention) -> Iterator[str]:
        if not retention.has_rules:
            yield "The repository has no retention rules: every commit stays."
        for branch in retention.head_of:
            yield f"It is the head of branch {branch}."
        tags = [
            tag
            for tag in self._engine.tags.list(repository)
            if tag.commit_id == retention.commit_id
        ]
        for tag in tags:
            yield f"Tag {tag.id} points to it: tagged commits stay."
        if retention.is_referenced and not tags:
            yield "A branch or a tag is being created there, or moved there."
        if not retention.has_rules:
            return
        if retention.is_recent:
            yield f"It was stored on {_day(retention.stored_us)}, less than a day ago: it stays."
        if retention.is_in_flight:
            yield "Its parent is the head of its branch: a commit in progress may publish it."
        if retention.window is not None and retention.window.branch:
            yield (
                f"It is on branch {retention.window.branch}, which keeps its history for"
                f" {retention.window.days} days."
            )
        elif retention.window is not None:
            yield f"It is on no branch, and such commits are kept for {retention.window.days} days."


def _path(repository: Repository, address: Address) -> str:
    """Return the path of an object in runs: see `rules.canonical_path`."""
    if repository.has_adopted(str(address)):
        return str(address)
    return repository.namespace.relative(address)


def _day(moment_us: int) -> str:
    return to_datetime(moment_us).isoformat(" ", "seconds")
