"""Commit records: written once, never changed, never deleted."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import CommitNotFound
from lakebed.engine.keys import COMMITS
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, StagingToken
from lakebed.formats import MetaRangeID
from lakebed.kv import OutcomeUnknown, Store, StoreUnavailable
from lakebed.kv.records import Records
from lakebed.kv.store import Put, still_unknown

COMMIT_VERSION: Final = 1
"""Ids are SHA-256 over all fields, each with its length, and a nonce."""

LAKEFS_VERSION: Final = 2
"""Ids as in lakeFS (`lakefs_ids`); the nonce is the metarange id in lakeFS."""

LAKEFS_SWAPPED_VERSION: Final = 3
"""As `LAKEFS_VERSION`, with the parents in the other order."""

TRUSTED_VERSION: Final = 4
"""Ids are not computed: the nonce is the commit's original id."""

FIRST_GENERATION: Final = 1
_NONCE_BYTES: Final = 16

CACHE_KILOBYTES: Final = 10_000
"""Most commits take less than one kilobyte; see `Commit.weight`."""


class Commits:
    """The commits of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        # Nearly every read of a branch reads its head, which never changes.
        self._cache: LRU[tuple[bytes, CommitID], Commit] = LRU(runtime, cost_max=CACHE_KILOBYTES)

    def get(self, repository: Repository, commit_id: CommitID) -> Commit:
        """Return a commit, or raise `CommitNotFound`."""
        cached = self._cache.get((repository.partition, commit_id))
        if cached is not None:
            return cached
        record = self._records(repository).find(commit_id.encode())
        if record is None:
            raise CommitNotFound(commit_id)
        found = _commit(record.name, record.message)
        self._cache.put((repository.partition, commit_id), found, cost=found.weight)
        return found

    def get_all(self, repository: Repository, ids: Sequence[CommitID]) -> list[Commit]:
        """Return commits in the order of `ids` in at most one store call; raises as `get`."""
        known = {each: self._cache.get((repository.partition, each)) for each in ids}
        missing = [each for each, commit in known.items() if commit is None]
        if missing:
            records = self._records(repository)
            places = [records.place(each.encode()) for each in missing]
            for commit_id, item in zip(missing, self._store.get_many(places), strict=True):
                if item is None:
                    raise CommitNotFound(commit_id)
                record = records.decode(item)
                known[commit_id] = found = _commit(record.name, record.message)
                self._cache.put((repository.partition, commit_id), found, cost=found.weight)
        return [commit for each in ids if (commit := known[each]) is not None]

    def add(
        self,
        repository: Repository,
        *,
        committer: str,
        message: str,
        metarange_id: MetaRangeID,
        parents: Sequence[Commit],
        metadata: Mapping[str, str],
        created_us: int | None = None,
        consumed_tokens: Iterable[StagingToken] = (),
        branch: str = "",
        sources: Iterable[CommitID] = (),
        beside: Sequence[Put] = (),
    ) -> Commit:
        """Store a commit, invisible until its id is published, and the records `beside` it.

        Two equal calls store two commits, since the id covers a nonce. So a commit record belongs
        to exactly one request, which recognises its own commit by the id.

        Raises:
            OutcomeUnknown: The commit and `beside` may have been stored, which does no harm.
        """
        generation = max((parent.generation + 1 for parent in parents), default=FIRST_GENERATION)
        stored_us = now_us(self._runtime)
        record = pb.Commit(
            version=COMMIT_VERSION,
            committer=committer,
            message=message,
            metarange_id=metarange_id,
            created_us=stored_us if created_us is None else created_us,
            parents=[parent.id for parent in parents],
            metadata=metadata,
            generation=generation,
            consumed_tokens=consumed_tokens,
            nonce=self._runtime.random_bytes(_NONCE_BYTES),
            stored_us=stored_us,
            branch=branch,
            sources=sources,
        )
        name = compute_id(record).encode()
        writes = [self._records(repository).put(name, record), *beside]
        try:
            self._store.write(writes)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            # A retry does no harm: the record belongs to this request alone, and announcements are
            # idempotent.
            with still_unknown(unknown):
                self._store.write(writes)
        added = _commit(name, record)
        self._cache.put((repository.partition, added.id), added, cost=added.weight)
        return added

    def adopt(
        self,
        repository: Repository,
        commit_id: CommitID,
        *,
        committer: str,
        message: str,
        metarange_id: MetaRangeID,
        parents: Sequence[Commit],
        metadata: Mapping[str, str],
        created_us: int,
        source_metarange_id: str,
        swapped: bool,
    ) -> bool:
        """Store a lakeFS commit under its lakeFS id; return whether the id matches. Idempotent.

        A commit whose id does not match its fields is stored too: users know the commit by this id.
        `metarange_id` has its entries in this repository, `source_metarange_id` is its id in
        lakeFS; the first of `parents` is the commit it was made over, and `swapped` if lakeFS has
        them in the other order. Other arguments are as for `add`.

        Raises:
            OutcomeUnknown: The commit may have been stored.
        """
        record = pb.Commit(
            version=LAKEFS_SWAPPED_VERSION if swapped else LAKEFS_VERSION,
            committer=committer,
            message=message,
            metarange_id=metarange_id,
            created_us=created_us,
            parents=[parent.id for parent in parents],
            metadata=metadata,
            generation=max((each.generation + 1 for each in parents), default=FIRST_GENERATION),
            nonce=source_metarange_id.encode(),
            stored_us=now_us(self._runtime),
        )
        is_right = compute_id(record) == commit_id
        if not is_right:
            record.version, record.nonce = TRUSTED_VERSION, commit_id.encode()
        self._records(repository).set(commit_id.encode(), record)
        return is_right

    def list(self, repository: Repository, *, after: str = "") -> Iterator[Commit]:
        """Iterate over all commit records in order of ids, published or not."""
        start = after.encode() + b"\x00" if after else b""
        for record in self._records(repository).scan(start=start):
            yield _commit(record.name, record.message)

    def with_prefix(self, repository: Repository, prefix: str) -> Iterator[Commit]:
        for record in self._records(repository).scan(prefix=prefix.encode()):
            yield _commit(record.name, record.message)

    def _records(self, repository: Repository) -> Records[pb.Commit]:
        return Records(self._store, COMMITS, repository.partition)


def compute_id(record: pb.Commit) -> CommitID:
    """Return the id of a commit record: a hash of its fields, each preceded by its length.

    The server's own notes (`stored_us`, `branch`, `sources`) are not covered.
    """
    if record.version == TRUSTED_VERSION:
        return CommitID(record.nonce.decode())
    if record.version in {LAKEFS_VERSION, LAKEFS_SWAPPED_VERSION}:
        swapped = record.version == LAKEFS_SWAPPED_VERSION
        return CommitID(lakefs_id(record, swapped=swapped))
    metadata = [text for item in sorted(record.metadata.items()) for text in item]
    data = bytearray(record.version.to_bytes(4, "big"))
    for part in (
        [record.committer, record.message, record.metarange_id],
        record.created_us,
        record.generation,
        record.parents,
        metadata,
        record.consumed_tokens,
    ):
        if isinstance(part, int):
            data += part.to_bytes(8, "big", signed=True)
            continue
        data += len(part).to_bytes(8, "big")
        for text in part:
            encoded = text.encode()
            data += len(encoded).to_bytes(8, "big") + encoded
    data += len(record.nonce).to_bytes(8, "big") + record.nonce
    return CommitID(hashlib.sha256(data).hexdigest())


def _commit(name: bytes, message: pb.Commit) -> Commit:
    return Commit(
        id=CommitID(name.decode()),
        committer=message.committer,
        message=message.message,
        metarange_id=MetaRangeID(message.metarange_id),
        created_us=message.created_us,
        parents=tuple(CommitID(parent) for parent in message.parents),
        metadata=dict(message.metadata),
        generation=message.generation,
        consumed_tokens=tuple(StagingToken(token) for token in message.consumed_tokens),
        stored_us=message.stored_us,
        branch=BranchID(message.branch),
        sources=tuple(CommitID(source) for source in message.sources),
    )


_TEXT, _NUMBER, _TEXTS, _TEXT_MAP, _EMBEDDED = b"\x01", b"\x02\x08", b"\x03", b"\x04", b"\x05\x00"
_MICROSECONDS = 1_000_000


def lakefs_id(record: pb.Commit, *, swapped: bool) -> str:
    """Return the lakeFS id of a commit: a hash of the fields, each with its type and length.

    Commits migrated from lakeFS keep their ids, which users may have written down. The metarange id
    in lakeFS, covered by the id and without a field of its own in the record, is in the nonce.
    `swapped` if the parents are in the other order there.
    """
    digest = hashlib.sha256()
    for text in ("commit:v1", record.committer, record.message, record.nonce.decode()):
        digest.update(_text(text))
    digest.update(_number(record.created_us // _MICROSECONDS))
    digest.update(_TEXT_MAP + _number(len(record.metadata)))
    for key, value in sorted(record.metadata.items()):
        digest.update(_text(key) + _text(value))
    parents = record.parents[::-1] if swapped else record.parents
    listed = _TEXTS + _number(len(parents)) + b"".join(map(_text, parents))
    digest.update(_EMBEDDED + _number(digest.digest_size) + hashlib.sha256(listed).digest())
    return digest.hexdigest()


def _text(text: str) -> bytes:
    data = text.encode()
    return _TEXT + _number(len(data)) + data


def _number(number: int) -> bytes:
    return _NUMBER + number.to_bytes(8, "big", signed=True)
