"""The operations on a working copy.

Each can be interrupted at any point and run again. Before the first file changes, a note under
`.lakebed/` records the target commit, and `.lakefs_ref.yaml` the active operation; after the last
change, `.lakefs_ref.yaml` names the new commit. The next run resumes from the note.

A commit is made on a hidden branch: created at the head of the real branch, filled with the local
changes only, then merged. So a commit is atomic, and uncommitted changes of other clients stay.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar

from lakebed.clients.http.http import Client
from lakebed.clients.working_copy.compare import (
    NameCheck,
    Row,
    SyncAction,
    align,
    describe,
    judge,
    rows,
)
from lakebed.clients.working_copy.errors import (
    Changed,
    Conflicts,
    Interrupted,
    NotEmpty,
    Unfinished,
    WorkingCopyError,
)
from lakebed.clients.working_copy.folder import OWN_FOLDER, WorkingFolder
from lakebed.clients.working_copy.hashes import Hashes, Known, LocalFile
from lakebed.clients.working_copy.remote import Remote, RemoteFile, Step
from lakebed.clients.working_copy.state import STATE_FILE, RemotePath, WorkingCopyState, read_state

_OPERATION_NOTE: Final = f"{OWN_FOLDER}/operation.json"
"""Note of the target commit."""
_COMMIT_NOTE: Final = f"{OWN_FOLDER}/commit.json"
"""Note of the hidden branch of a commit, and of the head where it was created."""
_CHUNK_BYTES: Final = 1 << 20

JobT = TypeVar("JobT")


class Transfers(Protocol):
    """Runner of transfers, possibly parallel."""

    def expect(self, sizes: Iterable[int]) -> None:
        """Announce the sizes of the files to transfer, for the progress display."""

    def run(self, jobs: Iterable[JobT], work: Callable[[JobT], Any]) -> Iterator[Any]:
        """Yield one outcome a job, with `job`, and `result` or `error`."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Collaborators shared by all operations."""

    client: Client
    transfers: Transfers
    step: Step
    """Called with the size of each transferred chunk."""
    caches: Callable[[Path], Path | None]
    """Returns the cache file of a directory."""


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """Changes made to the directory."""

    commit_id: str
    fetched: int = 0
    removed: int = 0
    up_to_date: int = 0
    """Files that an interrupted run of the same operation had already brought up to date."""

    def after(self, earlier: "SyncSummary") -> "SyncSummary":
        """Add the counts of an earlier part of the same operation."""
        return replace(
            self,
            fetched=earlier.fetched + self.fetched,
            removed=earlier.removed + self.removed,
            up_to_date=earlier.up_to_date,
        )


@dataclass(frozen=True, slots=True)
class WorkingCopyCommit:
    """Result of a commit."""

    commit_id: str
    sent: int
    removed: int
    up_to_date: int
    """Changes that an interrupted commit had already uploaded."""
    not_pulled: tuple[str, ...]
    """Files that were changed both locally and on the server during the commit."""


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A changed path, and the side of the change."""

    side: str
    kind: str
    path: str


@contextmanager
def working_copy(root: Path, tools: Tools) -> Iterator["WorkingCopy"]:
    """Open a working copy and lock it."""
    folder = WorkingFolder(root)
    hashes = Hashes(tools.caches(root))
    try:
        yield WorkingCopy(folder, hashes, tools)
    finally:
        hashes.close()
        folder.close()


def link_directory(
    root: Path, source: RemotePath, tools: Tools, *, force: bool = False
) -> WorkingCopyState:
    """Link a directory to a repository path, without changing its files."""
    at_head = Remote(tools.client, source, step=tools.step).resolve(source.ref)
    root.mkdir(parents=True, exist_ok=True)
    if (root / STATE_FILE).exists() and not force:
        raise NotEmpty(f"{root} is already a working copy: pass --force to link it to {source}")
    state = WorkingCopyState(source, at_head)
    folder = WorkingFolder(root)
    try:
        folder.write_own(STATE_FILE, state.encoded())
        folder.remove_own(_OPERATION_NOTE)
    finally:
        folder.close()
    return state


def clone(root: Path, source: RemotePath, tools: Tools) -> SyncSummary:
    """Download a path into a new or empty directory, or resume an interrupted clone.

    Raises:
        NotEmpty: The directory contains files.
        BadNames: Some objects cannot be files; nothing was written.
        Unfinished: Some downloads failed.
    """
    at_head = Remote(tools.client, source, step=tools.step).resolve(source.ref)
    root.mkdir(parents=True, exist_ok=True)
    folder = WorkingFolder(root)
    try:
        if folder.is_empty():
            folder.write_own(_OPERATION_NOTE, _encoded(operation="clone", target=at_head))
            folder.write_own(STATE_FILE, WorkingCopyState(source, at_head, "clone").encoded())
        elif not _is_clone_of(root, source):
            raise NotEmpty(f"{root} is not empty: choose a new folder, or run `lakebed local init`")
    finally:
        folder.close()
    with working_copy(root, tools) as copy:
        return copy.finish_clone()


def _is_clone_of(root: Path, source: RemotePath) -> bool:
    if not (root / STATE_FILE).exists():
        return False
    state = read_state(root)
    return (state.source, state.active_operation) == (source, "clone")


class WorkingCopy:
    """One working copy, locked by this process."""

    def __init__(self, folder: WorkingFolder, hashes: Hashes, tools: Tools) -> None:
        self.state = read_state(folder.root)
        self._folder = folder
        self._hashes = hashes
        self._transfers = tools.transfers
        if not self.state.active_operation:
            folder.remove_own(_OPERATION_NOTE)  # left by a process killed after its last change
        self._remote = Remote(tools.client, self.state.source, step=tools.step)

    # Looking

    def status(self, *, local_only: bool = False) -> Iterator[ChangedPath]:
        """Iterate over the changes since the base commit, local and on the server."""
        at_head = self.state.at_head
        head = at_head if local_only else self._remote.resolve(self.state.source.ref)
        for row in self._rows("status", head):
            if (found := describe(row, self._is_same)) is not None:
                yield ChangedPath(*found, row.path)

    def has_local_changes(self) -> bool:
        """Whether any file was changed locally."""
        return next(self.status(local_only=True), None) is not None

    # From the server

    def finish_clone(self) -> SyncSummary:
        """Download the files that the clone has not fetched yet."""
        target = self._note(_OPERATION_NOTE).get("target", self.state.at_head)
        return self._sync("clone", target)

    def pull(self, *, force: bool = False) -> SyncSummary:
        """Apply the changes from the server; keep local changes, unless `force`.

        Raises:
            Conflicts: Files were changed on both sides; nothing was done.
            Interrupted: Another operation has to be completed first.
        """
        finished = self._finish("pull", discard_changes=force)
        target = self._remote.resolve(self.state.source.ref)
        done = self._sync("pull", target, discard_changes=force)
        return done if finished is None else done.after(finished)

    def checkout(self, ref: str | None = None) -> SyncSummary:
        """Reset the directory to a commit and discard local changes.

        Args:
            ref: The commit; None means the target of an interrupted checkout, or the base commit.
        """
        noted = self._note(_OPERATION_NOTE) if self.state.active_operation else {}
        target = self._remote.resolve(ref) if ref else noted.get("target", self.state.at_head)
        return self._sync("checkout", target, discard_changes=True)

    def _finish(self, operation: str, *, discard_changes: bool = False) -> SyncSummary | None:
        """Resume an interrupted operation before `operation` begins.

        Returns:
            The changes made, or None if no operation had to be resumed.

        Raises:
            Interrupted: The interrupted operation cannot be resumed by `operation`.
        """
        active = self.state.active_operation
        note = self._note(_OPERATION_NOTE)
        if active in {"pull", "commit"} and note:
            if not discard_changes:
                return self._sync(active, note["target"])
        elif active not in {"", "commit"} and not discard_changes:
            again = f"run `lakebed local {active}` again to finish it, or " if note else ""
            raise Interrupted(
                f"the last `local {active}` was interrupted, so `local {operation}` cannot start:"
                f" {again}run `lakebed local checkout` to discard local changes"
            )
        return None

    def _sync(self, operation: str, target: str, *, discard_changes: bool = False) -> SyncSummary:
        """Bring the directory to a commit; see `judge`."""
        if operation != "clone" and not discard_changes:
            at_head = self.state.at_head
            if target == at_head or next(self._remote.diff(at_head, target), None) is None:
                self._end(target)
                return SyncSummary(target)
        goes_on = self.state.active_operation == operation
        found, up_to_date = self._check(operation, target, discard_changes=discard_changes)
        self._folder.write_own(_OPERATION_NOTE, _encoded(operation=operation, target=target))
        self._write(replace(self.state, active_operation=operation))
        if SyncAction.REMOVE in found:
            for row, verdict in self._judged(operation, target, discard_changes=discard_changes):
                if verdict is SyncAction.REMOVE and row.local is not None:
                    self._folder.remove(row.local)
        if SyncAction.FETCH in found:
            judged = self._judged(operation, target, discard_changes=discard_changes)
            wanted = (row for row, verdict in judged if verdict is SyncAction.FETCH)
            self._transfer(wanted, self._fetch)
        self._end(target)
        fetched, removed = found.get(SyncAction.FETCH, 0), found.get(SyncAction.REMOVE, 0)
        return SyncSummary(target, fetched, removed, up_to_date if goes_on else 0)

    def _check(
        self, operation: str, target: str, *, discard_changes: bool
    ) -> tuple[dict[SyncAction, int], int]:
        """Count the pending changes and the up-to-date files before anything is changed."""
        counts: dict[SyncAction, int] = {}
        up_to_date = 0
        conflicts, sizes = [], []
        names = NameCheck(ignores_case=self._folder.ignores_case())
        for row in self._rows(operation, target, discard_changes=discard_changes):
            verdict = self._judge(row, operation, discard_changes=discard_changes)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict is SyncAction.CONFLICT:
                conflicts.append(row.path)
            if verdict is SyncAction.FETCH and row.target is not None:
                sizes.append(row.target.size)
            if verdict is SyncAction.KEEP and row.local:
                up_to_date += 1
            if verdict is SyncAction.FETCH or (verdict is SyncAction.KEEP and row.local):
                names.add(row.path)
        names.finish()
        if conflicts:
            raise Conflicts(
                conflicts,
                "move these files out of the folder and run `lakebed local pull`, or discard all"
                " local changes with `lakebed local pull --force`",
            )
        self._transfers.expect(sizes)
        return counts, up_to_date

    def _judged(
        self, operation: str, target: str, *, discard_changes: bool
    ) -> Iterator[tuple[Row, SyncAction]]:
        for row in self._rows(operation, target, discard_changes=discard_changes):
            verdict = self._judge(row, operation, discard_changes=discard_changes)
            if verdict is SyncAction.CONFLICT:
                raise Changed(row.path)
            yield row, verdict

    def _judge(self, row: Row, operation: str, *, discard_changes: bool) -> SyncAction:
        restore_deleted = operation == "pull"
        return judge(
            row, self._is_same, discard_changes=discard_changes, restore_deleted=restore_deleted
        )

    def _rows(self, operation: str, target: str, *, discard_changes: bool = False) -> Iterator[Row]:
        remote, local, at_head = self._remote, self._folder.walk(), self.state.at_head
        if discard_changes:
            return rows(remote.list(target), (), local)
        if operation == "clone":
            return rows((), ((item.path, item) for item in remote.list(target)), local)
        changes = () if target == at_head else remote.diff(at_head, target)
        return rows(remote.list(at_head), changes, local)

    def _fetch(self, row: Row) -> tuple[LocalFile, str, str, int]:
        item, md5 = row.target, ""
        assert item is not None

        def write(file: BinaryIO) -> None:
            nonlocal md5
            md5 = self._remote.fetch(item, file.write)

        now = time.time_ns()
        file = self._folder.put(row.path, write, seen=row.local, mtime=item.mtime)
        return file, md5, item.checksum, now

    def _end(self, at_head: str) -> None:
        self._write(replace(self.state, at_head=at_head, active_operation=""))
        self._folder.remove_own(_OPERATION_NOTE)

    def _write(self, state: WorkingCopyState) -> None:
        if state != self.state:
            self._folder.write_own(STATE_FILE, state.encoded())
            self.state = state

    # To the server

    def commit(self, message: str, metadata: Mapping[str, str]) -> WorkingCopyCommit | None:
        """Commit the local changes only, then apply the changes from the server.

        Returns:
            The result, or None if nothing was changed locally.

        Raises:
            Conflicts: Files were also changed or staged on the server; nothing was done.
            Interrupted: Another operation has to be completed first.
            Unfinished: Some uploads failed.
        """
        self._finish("commit")
        head = self._remote.branch_head()
        self._sync("commit", head)
        changes = self._local_changes(head)
        if next(changes, None) is None:
            self._forget_branch(self._note(_COMMIT_NOTE).get("branch"))
            return None
        goes_on = self._note(_COMMIT_NOTE).get("head") == head
        wanted = 1 + sum(1 for _ in changes) if goes_on else 0
        branch = self._branch_from(head)
        self._write(replace(self.state, active_operation="commit"))
        sent, removed = self._send_all(branch)
        sent_id = self._remote.commit(branch, message, metadata)
        try:
            commit_id = self._remote.merge(branch, message, metadata)
        except Conflicts:
            self._end(head)
            self._forget_branch(branch)
            raise
        # A file that now differs from `sent_id` was changed after its upload.
        self._write(replace(self.state, at_head=sent_id))
        not_pulled: list[str] = []
        try:
            self._sync("commit", commit_id)
        except Conflicts as conflicts:
            not_pulled = conflicts.paths
            self._end(sent_id)
        self._forget_branch(branch)
        up_to_date = max(0, wanted - sent - removed)
        return WorkingCopyCommit(commit_id, sent, removed, up_to_date, tuple(not_pulled))

    def _local_changes(self, ref: str) -> Iterator[tuple[str, RemoteFile | None, LocalFile | None]]:
        """Iterate over the paths where the directory differs from a ref."""
        items = ((item.path, item) for item in self._remote.list(ref))
        files = ((file.path, file) for file in self._folder.walk())
        for path, (item, file) in align(items, files):
            if not self._is_same(file, item):
                yield path, item, file

    def _branch_from(self, head: str) -> str:
        """Return a hidden branch created at `head`, reusing that of an interrupted commit."""
        note = self._note(_COMMIT_NOTE)
        if note.get("head") != head:
            self._forget_branch(note.get("branch"))
            note = {"branch": f"working-copy-{secrets.token_hex(8)}", "head": head}
            # Written before the branch is created, so that the branch is never orphaned.
            self._folder.write_own(_COMMIT_NOTE, _encoded(**note))
        self._remote.make_branch(note["branch"], head)
        return note["branch"]

    def _forget_branch(self, branch: str | None) -> None:
        if branch is not None:
            self._remote.drop_branch(branch)
        self._folder.remove_own(_COMMIT_NOTE)

    def _send_all(self, branch: str) -> tuple[int, int]:
        """Bring a branch to the content of the directory; count uploads and removals."""
        removed: list[str] = []

        def to_send() -> Iterator[tuple[str, RemoteFile | None]]:
            for path, item, file in self._local_changes(branch):
                if file is None:
                    removed.append(path)
                else:
                    yield path, item

        def send(job: tuple[str, RemoteFile | None]) -> tuple[LocalFile, str, str, int]:
            path, item = job
            with self._folder.open(path) as file:
                now, before = time.time_ns(), self._folder.status(file, path)
                seconds = before.mtime_ns // 1_000_000_000
                md5, checksum = self._remote.send(
                    branch, path, file, size=before.size, mtime=seconds, instead=item
                )
                if self._folder.status(file, path) != before:
                    raise Changed(path)
            return before, md5, checksum, now

        changed = (file for _, _, file in self._local_changes(branch))
        self._transfers.expect(file.size for file in changed if file is not None)
        sent = self._transfer(to_send(), send)
        self._remote.remove(branch, removed)
        return sent, len(removed)

    # Both

    def _transfer(
        self, jobs: Iterable[JobT], work: Callable[[JobT], tuple[LocalFile, str, str, int]]
    ) -> int:
        """Transfer files, cache their hashes, and return their number."""
        count, failed = 0, []
        for outcome in self._transfers.run(jobs, work):
            if outcome.error is not None:
                path = getattr(outcome.job, "path", None) or outcome.job[0]
                failed.append(f"{path}: {outcome.error}")
                continue
            file, md5, checksum, read_ns = outcome.result
            self._hashes.note(file, md5, checksum, read_ns=read_ns)
            count += 1
        if failed:
            raise Unfinished(failed)
        return count

    def _is_same(self, file: LocalFile | None, item: RemoteFile | None) -> bool:
        """Whether a file has the bytes of an object; read the file only if not cached."""
        if file is None or item is None:
            return file is None and item is None
        if file.size != item.size:
            return False
        known = self._hashes.find(file)
        if known is None or not known.is_current:
            known = self._read(file, known)
        if known.checksum == item.checksum:
            return True
        # The checksum of a multipart object is no MD5: compare the bytes unless cached.
        found = item.md5 or self._remote.fetch(item, lambda _: None)
        if found == known.md5:
            self._hashes.link(file, item.checksum)
        return found == known.md5

    def _read(self, file: LocalFile, known: Known | None) -> Known:
        """Hash a file whose cached hash may be stale."""
        md5, now = hashlib.md5(usedforsecurity=False), time.time_ns()
        with self._folder.open(file.path) as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                md5.update(chunk)
            if self._folder.status(opened, file.path) != file:
                raise Changed(file.path)
        found = md5.hexdigest()
        checksum = known.checksum if known is not None and known.md5 == found else found
        self._hashes.note(file, found, checksum, read_ns=now)
        return Known(found, checksum, is_current=True)

    def _note(self, name: str) -> dict[str, str]:
        content = self._folder.read_own(name)
        try:
            return dict(json.loads(content)) if content else {}
        except ValueError:
            raise WorkingCopyError(
                f"{self._folder.root / name} cannot be read: remove it, then run"
                " `lakebed local checkout`"
            ) from None


def _encoded(**fields: str) -> bytes:
    return json.dumps(fields).encode()
