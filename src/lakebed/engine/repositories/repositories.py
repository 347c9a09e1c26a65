"""Life cycle of a repository, without transactions: one record whose state changes stepwise.

    absent --create--> initial --create--> active --delete--> deleting --any process--> absent
                       initial --the Cleaner, if it is never finished--> deleting

Each creation draws a unique id. All its data is stored under this id (its partition, its claim), so
no data of a repository ever shows up in a later one of the same name.

**Creating**

    1. the record, `initial`, only if absent            the name is taken
    2. the claim on the namespace (`ownership`)         the namespace is taken
    3. the owner object in the namespace (`ownership`)  other installations see the owner
    4. the first commit, then the default branch        not for a bare repository
    5. the record, `active`, only over that of step 1   the repository exists

The record precedes the claim: a claim is dead if the record lacks its unique id, so any creator
could take over a claim without a record. A creator that dies leaves behind

- after 1: an `initial` record. The name is taken until the Cleaner has seen the record for two
  minutes.
- after 2, 3, 4: also a claim, an owner object, a commit, a branch. They end with the record: the
  claim is released, the partition is noted in `graveler_deleted`, the owner object is dead.

A creator that is refused (the namespace is taken, or the storage refuses) undoes its steps. Its own
record is removed as in a deletion, `deleting` first: if the creator dies on the way, any process in
need of the name or the namespace finishes at once. If a creator is so slow that its record was
removed, step 5 finds no record or another creation's; all data written meanwhile is under its own
unique id, and dead.

After a lost reply, the creator reads the record and looks for its own unique id. If this is
inconclusive (no record: activated and deleted, or never activated?), it raises `OutcomeUnknown`.

**Deleting** is described in `removal`. The objects stay in the storage.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.actor import current_actor
from lakebed.base.errors import LakebedError
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, UniqueID, new_unique_id, now_us
from lakebed.block import Address, BlockStore, Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed import CommittedFor
from lakebed.engine.errors import (
    Deleting,
    GivenUp,
    Invalid,
    NamespaceTaken,
    NotUnique,
    ReadOnly,
    RepositoryNotFound,
    TooManyTries,
)
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import (
    WORDS_BYTES_MAX,
    AdoptedNamespace,
    BranchID,
    Repository,
    RepositoryID,
    check_branch_name,
    check_repository_name,
    size_of,
)
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.engine.repositories.ownership import (
    NamespaceClaims,
    NamespaceOwner,
    OwnerObjects,
    RepositoryRecord,
    owner_of,
)
from lakebed.engine.repositories.removal import ACTIVE, DELETING, INITIAL, Removal
from lakebed.kv import (
    ABSENT,
    Item,
    OutcomeUnknown,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.records import Record, Records
from lakebed.kv.store import still_unknown

_LOGGER: Final = logging.getLogger(__name__)

FIRST_COMMIT_MESSAGE: Final = "Repository created"
_TRIES: Final = 10
_KNOWN_MAX: Final = 1024

COURTESY_SECONDS: Final = 2.0
"""How long a creation waits for another that must give up, and may be dead."""

_COURTESY_PAUSE_SECONDS: Final = 0.02

SEEN_SECONDS: Final = 60.0
"""A fraction of the longest request; see `EngineSettings.grace_seconds`."""


@dataclass(slots=True)
class _Known:
    """A repository as last read."""

    version: Version
    """Identifies one content of the record."""
    repository: Repository
    read_at: float
    """Monotonic time before the read."""


class Repositories:
    """All repositories of an installation; one object per process."""

    def __init__(
        self,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        *,
        branches: Branches,
        commits: Commits,
        committed_in: CommittedFor,
    ) -> None:
        self._block = block
        self._runtime = runtime
        self._branches = branches
        self._commits = commits
        self._committed_in = committed_in
        self._records = Records(store, REPOSITORIES, GRAVELER)
        self._claims = NamespaceClaims(store)
        self._removal = Removal(store, runtime, self._claims)
        self._owner_objects = OwnerObjects(store, block, runtime)
        self._reads: SharedReads[RepositoryID, Repository] = SharedReads(runtime, self._read)
        self._known: LRU[RepositoryID, _Known] = LRU(runtime, cost_max=_KNOWN_MAX)

    def get(self, repository: RepositoryID) -> Repository:
        """Return a repository as of a moment after this call began.

        Every operation on a repository starts here: the read proves the repository active, and
        gives the unique id of its partition.

        Raises:
            RepositoryNotFound: The repository does not exist, or is still being created.
            Deleting: The repository is being deleted.
        """
        return self._reads.get(repository)

    def get_writable(self, repository: RepositoryID) -> Repository:
        """Return a repository as `get`; raise `ReadOnly` if the request must not change it."""
        found = self.get(repository)
        if found.read_only and not current_actor().force:
            raise ReadOnly(repository)
        return found

    def last_seen(self, repository: RepositoryID) -> tuple[Version, Repository] | None:
        """Return the version and content of an active repository as last read, or None.

        Callers must validate its version.
        """
        known = self._known.get(repository)
        return None if known is None else (known.version, known.repository)

    def from_item(self, repository: RepositoryID, item: Item | None, read_at: float) -> Repository:
        """Return a repository, given the item of its record; raises as `get`.

        `read_at` is a monotonic time before the item was read.
        """
        known = self._known.get(repository)
        if item is not None and known is not None and known.version == item.predicate:
            known.read_at = read_at
            return known.repository
        record = _active(repository, None if item is None else self._records.decode(item))
        return self._remember(repository, record, read_at)

    def seen_recently(self, repository: RepositoryID) -> Repository | None:
        """Return the repository from `last_seen`, or None if read more than `SEEN_SECONDS` ago.

        For callers that write an invisible record into the repository's partition before they check
        the repository. If it was deleted meanwhile, the Cleaner finds the record in a second scan,
        after all requests from before the deletion have ended.
        """
        known = self._known.get(repository)
        if known is None or self._runtime.monotonic() - known.read_at > SEEN_SECONDS:
            return None
        return known.repository

    def list(self, *, prefix: str = "", after: str = "") -> Iterator[Repository]:
        """Iterate over the active repositories after `after` whose names begin with `prefix`."""
        start = after.encode() + b"\x00" if after else b""
        for record in self._records.scan(prefix=prefix.encode(), start=start):
            if record.message.state == ACTIVE:
                yield _repository(record)

    def list_readable(self) -> Iterator[Repository]:
        """Iterate over the active repositories with undamaged records, for clean-up."""
        for record in self._records.scan_readable():
            if record.message.state == ACTIVE:
                yield _repository(record)

    def owners_of(self, address: Address) -> tuple[RepositoryID | None, RepositoryID | None]:
        """Return the live and the deleted repository whose namespace contains an address, or None.

        Of deleted repositories, only one with objects left at the address counts.
        """
        owners, closed = self._claims.owners_of(address)
        live = next((each.repository for each in owners if self._removal.is_live(each)), None)
        if live is None and closed is None and owners:
            # The namespace of a repository deleted meanwhile was closed before that.
            _, closed = self._claims.owners_of(address)
        return live, None if closed is None else closed.repository

    def overlapping_owner(self, namespace: Namespace) -> RepositoryID | None:
        """Return a live repository with a namespace equal to, above or below this one, or None."""
        for owner in self._claims.overlapping(namespace):
            if self._removal.is_live(owner):
                return owner.repository
        return None

    def former_owner(self, namespace: Namespace) -> RepositoryID | None:
        """Return a deleted repository that left objects in, above or below a namespace, or None."""
        owner = self._claims.closed_overlapping(namespace)
        return None if owner is None else owner.repository

    def create(
        self,
        repository: str,
        namespace: Namespace,
        *,
        committer: str,
        default_branch: str = "main",
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> Repository:
        """Create a repository, with a first commit and a branch there.

        Raises:
            InvalidName: The name of the repository or the branch is not valid.
            Invalid: The storage does not support the namespace.
            NotUnique: The name is taken, or a creation under it is in progress.
            NamespaceTaken: Another repository keeps its data there, above or below.
            GivenUp: Another process undid the slow creation.
            BlockError: The storage refused; nothing was created.
            OutcomeUnknown: The repository may have been created; if not, no trace stays.
        """

        def populate(created: Repository) -> None:
            metarange_id = self._committed_in(created.files_root).write([])
            commit = self._commits.add(
                created,
                committer=committer,
                message=FIRST_COMMIT_MESSAGE,
                metarange_id=metarange_id,
                parents=[],
                metadata={},
            )
            self._branches.create(created, created.default_branch, commit.id)

        message = self._message(namespace, default_branch, read_only=read_only, metadata=metadata)
        return self._create(check_repository_name(repository), message, populate)

    def create_bare(
        self,
        repository: str,
        namespace: Namespace,
        *,
        default_branch: str = "main",
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> Repository:
        """Create a repository without commits and branches, for a restore; raises as `create`."""
        message = self._message(namespace, default_branch, read_only=read_only, metadata=metadata)
        return self._create(check_repository_name(repository), message, lambda _: None)

    def _message(
        self,
        namespace: Namespace,
        default_branch: str,
        *,
        read_only: bool,
        metadata: Mapping[str, str] | None,
    ) -> pb.Repository:
        """Return the record of a new repository after all checks that need no write."""
        if namespace.parts.scheme != self._block.scheme:
            raise Invalid(
                f"storage namespace {namespace} cannot be used: this installation's storage is"
                f" {self._block.scheme}://, not {namespace.parts.scheme}://"
            )
        self._claims.check_size(namespace)
        return pb.Repository(
            state=INITIAL,
            storage_namespace=str(namespace),
            default_branch=check_branch_name(default_branch),
            read_only=read_only,
            metadata=metadata,
            strict_hooks=True,
        )

    def _create(
        self,
        repository: RepositoryID,
        message: pb.Repository,
        populate: Callable[[Repository], None],
    ) -> Repository:
        record = self._begin(repository, message)
        created = _repository(record)
        try:
            self._claims.take(
                created.namespace, owner_of(record), partial(self._retains, owner_of(record))
            )
            self._owner_objects.take(created.namespace, owner_of(record), self._removal.is_live)
            populate(created)
            return self._activate(record)
        except StoreUnavailable:
            raise  # undoing would fail too
        except LakebedError:
            self._undo(record)
            raise

    def _retains(self, ours: NamespaceOwner, other: NamespaceOwner) -> bool:
        """Return whether another creation retains the namespace that this one claims.

        Two creations that see each other would both give up. So the creation with the smaller
        unique id waits for the other, which gives up, or had scanned before our claim was written.
        """
        give_up_at = self._runtime.monotonic() + COURTESY_SECONDS
        while True:
            found = self._removal.find_current(other.repository)
            if found is None or found.message.unique_id != other.unique_id:
                return False
            gives_way = found.message.state == INITIAL and other.unique_id > ours.unique_id
            if not gives_way or self._runtime.monotonic() >= give_up_at:
                return True
            self._runtime.sleep(_COURTESY_PAUSE_SECONDS)

    def _begin(self, repository: RepositoryID, message: pb.Repository) -> RepositoryRecord:
        """Step 1."""
        for _ in range(_TRIES):
            found = self._removal.find_current(repository)
            if found is not None:
                raise _not_unique(found)
            # A new id for each attempt: a lost and removed write must not be taken for this one.
            message.unique_id = new_unique_id(self._runtime)
            message.created_us = now_us(self._runtime)
            try:
                version = self._records.set_if(repository.encode(), message, ABSENT)
            except PredicateFailed:
                continue
            except StoreUnavailable:
                raise
            except OutcomeUnknown as unknown:
                with still_unknown(unknown):
                    found = self._removal.find_current(repository)
                if found is None or found.message.unique_id != message.unique_id:
                    continue
                version = found.predicate
            return Record(repository.encode(), message, version)
        raise TooManyTries(f"the creation of repository {repository}", _TRIES)

    def _activate(self, record: RepositoryRecord) -> Repository:
        """Step 5."""
        message = pb.Repository()
        message.CopyFrom(record.message)
        message.state = ACTIVE
        try:
            version = self._records.set_if(record.name, message, record.predicate)
        except PredicateFailed:
            raise GivenUp(f"the creation of repository {record.name.decode()}") from None
        except OutcomeUnknown as unknown:
            with still_unknown(unknown):
                found = self._records.find(record.name)
            if (
                found is None
                or found.message.unique_id != record.message.unique_id
                or found.message.state != ACTIVE
            ):
                raise
            return _repository(found)
        return _repository(Record(record.name, message, version))

    def _undo(self, record: RepositoryRecord) -> None:
        """Undo a creation that was refused; another process finishes an incomplete undo."""
        with suppress(LakebedError):
            self._removal.end(record)
        # If the record was removed before we claimed, the claim is dead: release it.
        with suppress(LakebedError):
            if not self._removal.is_live(owner_of(record)):
                self._claims.release(_repository(record).namespace, owner_of(record))

    def set_metadata(
        self, repository: RepositoryID, *, put: Mapping[str, str], remove: Collection[str] = ()
    ) -> Repository:
        """Add, replace and remove metadata of a repository.

        Raises:
            RepositoryNotFound: The repository does not exist.
            Deleting: The repository is being deleted.
            Invalid: The metadata would be too large.
            TooManyTries: Concurrent changes won every time.
            OutcomeUnknown: The metadata may have been changed.
        """

        def change(message: pb.Repository) -> None:
            for key in remove:
                message.metadata.pop(key, None)
            message.metadata.update(put)
            if put and (size := size_of(message.metadata)) > WORDS_BYTES_MAX:
                raise Invalid(
                    f"the metadata of a repository would have {size} bytes, names and values"
                    f" together: the limit is {WORDS_BYTES_MAX}"
                )

        return self._change(repository, change)

    def set_read_only(self, repository: RepositoryID, *, read_only: bool) -> Repository:
        """Set whether a repository is read-only; raises as `set_metadata`."""

        def change(message: pb.Repository) -> None:
            message.read_only = read_only

        return self._change(repository, change)

    def adopt(self, repository: RepositoryID, namespace: Namespace) -> AdoptedNamespace:
        """Take over the objects of a repository's former namespace in lakeFS; idempotent.

        1. The claim of the namespace: no other repository of this installation has or gets it.
        2. The owner object in it: nor does a repository of another installation.
        3. The record of the repository: from now on, objects in the namespace count as its own.

        A death before step 3, or a concurrent creation in the namespace, leaves a namespace that
        only this repository can adopt.

        Raises:
            RepositoryNotFound: The repository does not exist.
            NamespaceTaken: Another repository keeps its data there, above or below.
            Invalid: The repository has adopted another namespace, or keeps its own data there,
                above or below.
            TooManyTries, OutcomeUnknown, BlockError: The adoption may have succeeded: repeat the
                call.
        """
        record = self._find_active(repository)
        owner, before = owner_of(record), _adopted(record.message)
        if before is not None and before.namespace != namespace:
            raise Invalid(f"repository {repository} has already adopted {before.namespace}")
        own = Namespace.parse(record.message.storage_namespace)
        if own.overlaps(namespace):
            raise Invalid(
                f"repository {repository} cannot adopt the objects in {namespace}: it keeps its own"
                f" data in {own}"
            )
        self._claims.check_size(namespace)
        # A refusal of `take` leaves the claim, because another adoption may rely on it.
        for other in self._claims.overlapping(namespace):
            if other != owner and self._removal.is_live(other):
                raise NamespaceTaken(
                    f"repository {repository} cannot adopt the objects in {namespace}: repository"
                    f" {other.repository} keeps its data there, above or below"
                )
        self._claims.take(namespace, owner, self._removal.is_live)
        self._owner_objects.take(namespace, owner, self._removal.is_live)
        adopted = pb.AdoptedNamespace(
            storage_namespace=str(namespace), adopted_us=now_us(self._runtime)
        )

        def change(message: pb.Repository) -> None:
            if message.unique_id != owner.unique_id:
                raise RepositoryNotFound(repository)
            if not message.HasField("adopted_namespace"):
                message.adopted_namespace.CopyFrom(adopted)

        changed = self._change(repository, change)
        assert changed.adopted is not None
        return changed.adopted

    def set_strict_hooks(self, repository: RepositoryID, *, strict: bool) -> Repository:
        """Set whether the hooks of heads judge their successors; raises as `set_metadata`."""

        def change(message: pb.Repository) -> None:
            message.strict_hooks = strict

        return self._change(repository, change)

    def _change(
        self, repository: RepositoryID, change: Callable[[pb.Repository], None]
    ) -> Repository:
        """Change a record by compare-and-swap; `change` must be idempotent."""
        unique_id: str | None = None
        for _ in range(_TRIES):
            record = self._find_active(repository)
            if unique_id not in {None, record.message.unique_id}:
                raise RepositoryNotFound(repository)  # created again under this name
            unique_id = record.message.unique_id
            message = pb.Repository()
            message.CopyFrom(record.message)
            change(message)
            if message == record.message:
                return _repository(record)
            try:
                version = self._records.set_if(record.name, message, record.predicate)
            except PredicateFailed:
                continue
            except OutcomeUnknown as unknown:
                with still_unknown(unknown):
                    found = self._find_active(repository)
                if found.message != message:
                    raise
                return _repository(found)
            return _repository(Record(record.name, message, version))
        raise TooManyTries(f"the change of repository {repository}", _TRIES)

    def delete(self, repository: RepositoryID, *, force: bool = False) -> None:
        """Delete a repository, read-only ones only by `force`.

        Its name and namespace are free at once, its objects stay.

        Raises:
            RepositoryNotFound: The repository does not exist.
            ReadOnly: The repository is read-only.
            TooManyTries: Concurrent changes won every time.
            OutcomeUnknown: The repository may have been deleted, or will be soon.
        """
        record = self._records.find(repository.encode())
        unique_id = None if record is None else record.message.unique_id
        for _ in range(_TRIES):
            # Another unique id: the first repository was deleted concurrently.
            if record is None or record.message.unique_id != unique_id:
                raise RepositoryNotFound(repository)
            if record.message.state == INITIAL:
                self._removal.find_current(repository)
                raise RepositoryNotFound(repository)
            if record.message.read_only and not force and record.message.state == ACTIVE:
                raise ReadOnly(repository)
            with suppress(PredicateFailed):
                self._removal.end(record)
                _LOGGER.info("deleted repository %s", repository)
                return
            record = self._records.find(repository.encode())
        raise TooManyTries(f"the deletion of repository {repository}", _TRIES)

    def _read(self, repository: RepositoryID) -> Repository:
        read_at = self._runtime.monotonic()
        return self._remember(repository, self._find_active(repository), read_at)

    def _remember(
        self, repository: RepositoryID, record: RepositoryRecord, read_at: float
    ) -> Repository:
        known = self._known.get(repository)
        if known is None or known.version != record.predicate:
            known = _Known(record.predicate, _repository(record), read_at)
            self._known.put(repository, known)
        known.read_at = read_at
        return known.repository

    def _find_active(self, repository: RepositoryID) -> RepositoryRecord:
        return _active(repository, self._records.find(repository.encode()))


def _active(repository: RepositoryID, record: RepositoryRecord | None) -> RepositoryRecord:
    """Return the record if its repository is active, else raise."""
    if record is not None and record.message.state == ACTIVE:
        return record
    if record is not None and record.message.state == DELETING:
        raise Deleting(repository)
    raise RepositoryNotFound(repository)


def _not_unique(found: RepositoryRecord) -> NotUnique:
    name = found.name.decode()
    if found.message.state == INITIAL:
        return NotUnique(f"repository {name} is being created by another request: use another name")
    return NotUnique.repository(name)


def _repository(record: RepositoryRecord) -> Repository:
    message = record.message
    return Repository(
        id=RepositoryID(record.name.decode()),
        unique_id=UniqueID(message.unique_id),
        namespace=Namespace.parse(message.storage_namespace),
        default_branch=BranchID(message.default_branch),
        created_us=message.created_us,
        read_only=message.read_only,
        strict_hooks=message.strict_hooks,
        metadata=dict(message.metadata),
        adopted=_adopted(message),
    )


def _adopted(message: pb.Repository) -> AdoptedNamespace | None:
    if not message.HasField("adopted_namespace"):
        return None
    found = message.adopted_namespace
    return AdoptedNamespace(Namespace.parse(found.storage_namespace), found.adopted_us)
