"""Restore of all refs of a repository from a dump, into a bare repository.

Everything is checked before the first write: each file against the manifest; each commit against
its id, its parents and its generation; each branch and tag against the commits; and the presence of
each metarange in the storage, though not of its ranges. If a check fails, nothing is restored, and
the error names the file.

Then commits, tags and branches are written, in this order, so that no ref ever points to a missing
record. A note in the repository names the dump being restored. So an interrupted restore can be
repeated, even after other writes: existing records stay. A finished restore is not repeated.

Commits whose data may be deleted get their expiry marks first: commits seen as expired by any run
of garbage collection (`lakebed.engine.expiry_marks`). Refs to them are left out. The restored
commits count as stored now, and no commit expires before a restore is finished.

If refs are left out, the rest is restored, and the final error lists them with reasons. The note
records this, so that a repeated restore ends in the same way.

Branches get new unique ids and staging tokens, without staged changes. Branches and tags are
created as usual (`creation`): if a name was taken meanwhile for another commit, the ref is left
out. Dumps of older versions may have a branch and a tag of the same name; both are restored.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from lakebed.base.runtime import Runtime, new_unique_id, now_us
from lakebed.block import BlockStore, ObjectNotFound
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import Invalid, InvalidName, MissingFile, NotUnique, RefsLeftOut
from lakebed.engine.expiry_marks import EXPIRED, read_all_expired
from lakebed.engine.keys import (
    BRANCHES,
    COMMITS,
    EXPIRY,
    GRAVELER,
    LIVE,
    REPOSITORIES,
    RESTORED,
    RESTORED_NAME,
    TAGS,
)
from lakebed.engine.model import (
    BranchID,
    Repository,
    check_branch_name,
    check_tag_name,
    new_staging_token,
)
from lakebed.engine.refs.commits import FIRST_GENERATION, compute_id
from lakebed.engine.refs.creation import create_branch, create_tag
from lakebed.engine.refs.dump import RefT, Row, active_record
from lakebed.formats import (
    MANIFEST_NAME,
    DamagedFile,
    DumpFile,
    DumpID,
    DumpManifest,
    MetaRangeID,
    RefKind,
    decode_manifest,
    decode_refs,
    dump_path,
    metarange_path,
)
from lakebed.formats.layout import METARANGES_FOLDER
from lakebed.kv import ABSENT, PredicateFailed, Store
from lakebed.kv.records import Records
from lakebed.kv.store import puts

_LOGGER: Final = logging.getLogger(__name__)
_LEFT_OUT_SHOWN: Final = 20
_DUMP_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_CHECKS: Final = {RefKind.BRANCHES: check_branch_name, RefKind.TAGS: check_tag_name}


def restore_refs(
    store: Store, block: BlockStore, runtime: Runtime, repository: Repository, dump_id: DumpID
) -> DumpManifest:
    """Restore a dump in the repository's storage namespace; return the manifest of the dump.

    Needs memory for the rows of one file, for the names of branches and tags, and about 400 bytes
    for each commit.

    Raises:
        Invalid: The repository is not bare: it has refs of its own or of another dump.
        RepositoryNotFound: The repository was deleted.
        MissingFile: The manifest, another file of the dump, or a referenced metarange is not in the
            storage.
        DamagedFile: The content of a file has changed, or does not match the other files.
        ForeignFile: A file was not written by Lakebed, or (`FormatTooNew`) by a newer version.
        RefsLeftOut: Everything was restored except some refs, listed in the error.
        OutcomeUnknown: A write may not have been applied: repeat the restore.
    """
    active_record(store, repository)
    files = _Files(block, repository, dump_id)
    notes = Records(store, RESTORED, repository.partition)
    if not is_restored(store, repository, dump_id):
        _check_dump(files, block, repository)
        _note(notes, dump_id)
        expired = [
            read_all_expired(block, repository.namespace, each)
            for each in files.manifest.unique_ids
        ]
        restorer = _Restorer(store, runtime, repository, frozenset().union(*expired))
        restorer.mark_expired()
        restorer.write(files)
        restorer.adopt(files.manifest.unique_ids)
        left_out = sorted(restorer.left_out)

        def finish(note: pb.RestoredRefs) -> None:
            note.dump_id, note.finished = dump_id, True
            note.left_out[:] = left_out[:_LEFT_OUT_SHOWN]
            note.left_out_count = len(left_out)

        notes.change(RESTORED_NAME, finish)
    note = notes.get(RESTORED_NAME).message
    if note.left_out_count:
        raise RefsLeftOut(dump_id, list(note.left_out), note.left_out_count)
    return files.manifest


class _Files:
    """The files of a dump, read one at a time."""

    def __init__(self, block: BlockStore, repository: Repository, dump_id: DumpID) -> None:
        if not _DUMP_ID.fullmatch(dump_id):
            raise Invalid(f"'{dump_id}' is not a valid dump id")
        self._block = block
        self._namespace = repository.namespace
        self._dump_id = dump_id
        data = self._read(MANIFEST_NAME)
        self.manifest = decode_manifest(data, dump_id, file=self.address(MANIFEST_NAME))

    def address(self, name: str) -> str:
        return str(self._namespace.address(dump_path(self._dump_id, name)))

    def tables(self, kind: RefKind) -> Iterator[tuple[DumpFile, pa.Table]]:
        """Iterate over the files of a kind, each checked against the manifest."""
        for file in self.manifest.of_kind(kind):
            yield file, decode_refs(self._read(file.name), file, file=self.address(file.name))

    def rows(self, kind: RefKind) -> Iterator[tuple[DumpFile, list[Row]]]:
        for file, table in self.tables(kind):
            place = table.column_names.index("created")
            created_us = table.column(place).cast(pa.int64())
            yield file, table.set_column(place, "created", created_us).to_pylist()

    def _read(self, name: str) -> bytes:
        try:
            return self._block.read(self._namespace.address(dump_path(self._dump_id, name)))
        except ObjectNotFound as error:
            raise MissingFile(self.address(name)) from error


def is_restored(store: Store, repository: Repository, dump_id: DumpID) -> bool:
    """Return whether the dump is fully restored; raise `Invalid` if the repository is not bare."""
    note = Records(store, RESTORED, repository.partition).find(RESTORED_NAME)
    if note is not None:
        _check_note(note.message, dump_id)
        return note.message.finished
    for prefix in (BRANCHES.prefix, TAGS.prefix, COMMITS.prefix):
        for item in store.scan(repository.partition, prefix, limit=1):
            if item.key.startswith(prefix):
                raise Invalid(
                    f"repository {repository.id} is not bare, it has {item.key.decode()}: restore"
                    " into a new bare repository"
                )
    return False


def _note(notes: Records[pb.RestoredRefs], dump_id: DumpID) -> None:
    """Note that a dump is being restored, if not noted yet."""
    try:
        notes.set_if(RESTORED_NAME, pb.RestoredRefs(dump_id=dump_id), ABSENT)
    except PredicateFailed:
        _check_note(notes.get(RESTORED_NAME).message, dump_id)


def _check_note(note: pb.RestoredRefs, dump_id: DumpID) -> None:
    if note.dump_id != dump_id:
        raise Invalid(
            f"dump {note.dump_id} was restored into this repository, at least in part: restore"
            f" {dump_id} into a new bare repository"
        )


def _check_dump(files: _Files, block: BlockStore, repository: Repository) -> None:
    generations = _check_ids(files)
    _check_parents(files, generations)
    for kind in _CHECKS:
        _check_names(files, kind, generations)
    _check_metaranges(files, block, repository)


def _check_ids(files: _Files) -> dict[str, int]:
    """Check that each commit matches its id and occurs once; return their generations."""
    generations: dict[str, int] = {}
    for file, rows in files.rows(RefKind.COMMITS):
        for row in rows:
            name = row["id"]
            if compute_id(_commit(row)) != name:
                raise _damaged(files, file, f"commit {name} does not match its id")
            if name in generations:
                raise _damaged(files, file, f"commit {name} occurs twice")
            generations[name] = row["generation"]
    return generations


def _check_parents(files: _Files, generations: dict[str, int]) -> None:
    for file, table in files.tables(RefKind.COMMITS):
        columns = (table.column(name).to_pylist() for name in ("id", "generation", "parents"))
        for name, generation, parents in zip(*columns, strict=True):
            missing = [parent for parent in parents if parent not in generations]
            if missing:
                raise _damaged(files, file, f"parent {missing[0]} of commit {name} is missing")
            right = max((generations[each] + 1 for each in parents), default=FIRST_GENERATION)
            if generation != right:
                reason = f"commit {name} has generation {generation} instead of {right}"
                raise _damaged(files, file, reason)


def _check_names(files: _Files, kind: RefKind, generations: dict[str, int]) -> None:
    known: set[str] = set()
    for file, table in files.tables(kind):
        columns = (table.column(name).to_pylist() for name in ("name", "commit_id"))
        for name, commit_id in zip(*columns, strict=True):
            try:
                _CHECKS[kind](name)
            except InvalidName as error:
                raise _damaged(files, file, str(error)) from error
            if name in known:
                raise _damaged(files, file, f"{name} occurs twice")
            if commit_id not in generations:
                raise _damaged(files, file, f"commit {commit_id} of {name} is missing")
            known.add(name)


def _check_metaranges(files: _Files, block: BlockStore, repository: Repository) -> None:
    """Check by a single listing that every metarange is in the storage."""
    needed: set[str] = set()
    for _, table in files.tables(RefKind.COMMITS):
        needed.update(table.column("metarange_id").to_pylist())
    needed.discard("")
    place = repository.namespace
    missing = {str(place.address(metarange_path(MetaRangeID(each)))) for each in needed}
    for batch in block.list_objects(place.folder(METARANGES_FOLDER)):
        missing.difference_update(batch.column("address").to_pylist())
    if missing:
        raise MissingFile(min(missing))


def _damaged(files: _Files, file: DumpFile, reason: str) -> DamagedFile:
    return DamagedFile(files.address(file.name), reason)


class _Restorer:
    """Writes the records of a dump into a repository."""

    def __init__(
        self, store: Store, runtime: Runtime, repository: Repository, expired: frozenset[str]
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._repository = repository
        self._expired = expired
        self.left_out: list[str] = []
        """Refs not restored, each with the reason."""
        self._shared: set[str] = set()
        """Names shared by a branch and a tag of the dump."""

    def mark_expired(self) -> None:
        """Mark the expired commits, before any of them can be found."""
        message = pb.Expiry(state=EXPIRED, expired_us=now_us(self._runtime))
        value = message.SerializeToString()
        marks = [(EXPIRY.prefix + each.encode(), value) for each in sorted(self._expired)]
        self._store.write(puts(self._repository.partition, marks))

    def write(self, files: _Files) -> None:
        """Write commits, then tags, then branches; existing records stay."""
        stored_us = now_us(self._runtime)
        for _, rows in files.rows(RefKind.COMMITS):
            # Stop filling a repository deleted meanwhile: the Cleaner may have finished already.
            active_record(self._store, self._repository)
            commits = Records(self._store, COMMITS, self._repository.partition)
            self._store.write(
                [commits.put(row["id"].encode(), _commit(row, stored_us)) for row in rows]
            )
        self._shared = _names(files, RefKind.BRANCHES) & _names(files, RefKind.TAGS)
        for noun, kind, create in (
            ("tag", RefKind.TAGS, self._tag),
            ("branch", RefKind.BRANCHES, self._branch),
        ):
            for _, rows in files.rows(kind):
                active_record(self._store, self._repository)
                kept = [row for row in rows if row["commit_id"] not in self._expired]
                created = self._runtime.map_parallel(create, kept)
                for row in rows:
                    if row["commit_id"] in self._expired:
                        self._leave_out(noun, row, f"its commit {row['commit_id']} has expired")
                for row, is_there in zip(kept, created, strict=True):
                    if not is_there:
                        self._leave_out(noun, row, "its name was taken for another commit")

    def adopt(self, unique_ids: tuple[str, ...]) -> None:
        """Record the former owners of referenced object paths, for garbage collection.

        Must follow the writes of commits: unreferenced objects below adopted paths are garbage.
        """
        records = Records(self._store, REPOSITORIES, GRAVELER)
        while True:
            record = active_record(self._store, self._repository)
            known = {self._repository.unique_id, *record.message.adopted_unique_ids}
            others = [each for each in unique_ids if each not in known]
            if not others:
                return
            record.message.adopted_unique_ids.extend(others)
            try:
                records.set_if(record.name, record.message, record.predicate)
            except PredicateFailed:
                continue  # another field of the record was changed concurrently

    def _leave_out(self, noun: str, row: Row, why: str) -> None:
        self.left_out.append(f"{noun} {row['name']}: {why}")
        _LOGGER.warning(
            "%s %s is left out of repository %s: %s", noun, row["name"], self._repository.id, why
        )

    def _tag(self, row: Row) -> bool:
        name, partition = row["name"], self._repository.partition
        message = pb.Tag(
            commit_id=row["commit_id"],
            created_us=row["created"],
            unique_id=new_unique_id(self._runtime),
        )
        try:
            create_tag(
                self._store,
                self._runtime,
                self._repository,
                name,
                message,
                shared=name in self._shared,
            )
        except NotUnique:
            return _is_at(Records(self._store, TAGS, partition), name, row)
        return True

    def _branch(self, row: Row) -> bool:
        repository, partition = self._repository.id, self._repository.partition
        name = BranchID(row["name"])
        message = pb.Branch(
            unique_id=new_unique_id(self._runtime),
            commit_id=row["commit_id"],
            staging_token=new_staging_token(self._runtime, repository, name),
            hidden=row["hidden"],
            created_us=row["created"],
        )
        try:
            create_branch(
                self._store,
                self._runtime,
                self._repository,
                name,
                message,
                shared=name in self._shared,
            )
        except NotUnique:
            return _is_at(Records(self._store, BRANCHES, partition), name, row)
        return True


def _names(files: _Files, kind: RefKind) -> set[str]:
    return {name for _, table in files.tables(kind) for name in table.column("name").to_pylist()}


def _is_at(records: Records[RefT], name: str, row: Row) -> bool:
    """Whether a ref is at the commit of the dump: an interrupted restore created it."""
    found = records.find(name.encode())
    if found is None or found.message.state != LIVE:
        return False
    return bool(found.message.commit_id == row["commit_id"])


def _commit(row: Row, stored_us: int = 0) -> pb.Commit:
    return pb.Commit(
        version=row["version"],
        committer=row["committer"],
        message=row["message"],
        metarange_id=row["metarange_id"],
        created_us=row["created"],
        parents=row["parents"],
        metadata=dict(row["metadata"]),
        generation=row["generation"],
        consumed_tokens=row["consumed_tokens"],
        nonce=row["nonce"],
        stored_us=stored_us,
    )
