"""What garbage is, in plain Python; `frames` does the same on Spark.

**Two looks.** A run takes a look at the repository: the server *prepares*, that is, it writes down
what is staged, open or committed, and the job finds objects in the storage that nothing of this
names. Such an object is a *candidate*. A later run deletes it, if its preparation began at least
the gap after the end of the preparation that found the candidate, and if every look since agreed.

**Why that is safe.** An object that is old enough to be a candidate is too old to be staged, since
writers check its age. So everything that names it did so before the first look began, and names
only move in the direction in which a preparation reads: from open uploads to staging to commit
records. Only one thing can hide an object from a look: a commit under way that has read an entry
which was then overwritten. Its commit record exists before the second look begins, or it reads
again.

**Optimized runs.** A run saves what it found as `State`, so that the next one need not read all
commits and list all objects again. Partitions that can get no more objects are *closed*; of these,
only objects that may still become garbage are remembered. For the same history both kinds of runs
find the same candidates and delete the same objects.

Times are microseconds since 1970 by the server's clock.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.formats import AddressType
from lakebed.formats.object_paths import ObjectPath, path_at_end
from lakebed.reclaim.collector.errors import TooMuchGarbage

_LOGGER: Final = logging.getLogger(__name__)

BRAKE_OBJECTS_MIN: Final = 1000
"""Up to so many objects are deleted whatever their share is."""


class Verdict(StrEnum):
    """What a look found an object to be."""

    COMMITTED = "committed"
    """A commit that has not expired names it: it stays until that has."""

    HELD = "held"
    """Only staging, a link or an upload names it: it may become garbage."""

    YOUNG = "young"
    """Nothing names it, but something may yet."""

    CANDIDATE = "candidate"
    """Garbage, unless a later look disagrees."""

    UNSEEN = "unseen"
    """A commit record names it, but no listing showed it. It may appear later: listings can be
    behind, and lost objects may be brought back. Then it stays."""


COMMIT_NAMED: Final = frozenset({Verdict.COMMITTED, Verdict.UNSEEN})
"""What commit records name, there or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTimes:
    """The times of one preparation; the server fixed them."""

    began_us: int
    ended_us: int
    cutoff_us: int
    """Objects that are written later are young."""
    closed_before_us: int
    """Partitions made earlier can get no more objects."""
    gap_us: int


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """An object as a listing of the storage shows it."""

    path: str
    size: int
    born_us: int
    """When it was issued or written, whichever is later."""
    made_us: int
    """When its partition was made."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An object and what a look found it to be."""

    stored: ScannedObject
    verdict: Verdict
    found_us: int | None = None
    """Of a candidate: when the first preparation ended that found it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a run leaves to the next."""

    repository_uids: frozenset[str]
    """Whose objects were looked at: the repository's own, and those of earlier ones whose refs it
    restored."""
    began_us: int
    """When the preparation began."""
    closed_before_us: int
    """Partitions made earlier are closed."""
    commits: frozenset[str]
    """The commit records whose addresses the run knew."""
    objects: Mapping[str, Judged]
    """By path; see `remembered`."""
    expired_ids: tuple[str, ...] = ()
    """The set of expired commits that the run went by."""


def is_adopted(path: str) -> bool:
    """Whether a path is that of an object in an adopted namespace: its whole address."""
    return "://" in path


def canonical_path(
    address: str,
    address_type: AddressType,
    namespace: Namespace,
    adopted: Collection[str] = (),
) -> str | None:
    """Return the path of an entry's address in a namespace; None if it is elsewhere.

    The path of an object that the repository has `adopted` (the folder that it is in) is its whole
    address.

    Entries name the same object by its path or by its whole address. Garbage collection compares
    paths only: compared as they are, a live object would look like garbage. For the same reason an
    address that cannot be read references the object whose path it ends with.

    Raises:
        InvalidAddress: The address cannot be read, and may be that of an adopted object, whose path
            has no form of its own.
    """
    if address_type is AddressType.RELATIVE:
        return address
    try:
        whole = Address.parse(address)
    except InvalidAddress as error:
        if adopted:
            raise InvalidAddress(f"an entry has the address {address!r}: {error}") from error
        _LOGGER.warning("an entry has an address that cannot be read (see fsck): %r", address)
        return path_at_end(address)
    if str(whole).startswith(tuple(adopted)):
        return str(whole)
    return namespace.relative(whole) if whole in namespace else None


def stored_object(path: str, *, size: int, mtime_us: int) -> ScannedObject | None:
    """Return an object of a listing; None if garbage collection must not touch it."""
    parts = ObjectPath.parse(path)
    if parts is None:
        return None
    return ScannedObject(path, size, max(parts.issued_us, mtime_us), parts.made_us)


class SavedLook(Protocol):
    """What a run before left, as far as `may_optimize` needs it."""

    @property
    def began_us(self) -> int:
        """When its preparation began."""

    @property
    def repository_uids(self) -> Collection[str]:
        """Whose objects it looked at."""

    @property
    def expired_ids(self) -> Collection[str]:
        """The set of expired commits that it went by."""


def may_optimize(
    saved: SavedLook | None,
    *,
    began_us: int,
    repository_uids: Collection[str],
    expired_ids: Collection[str] = (),
) -> bool:
    """Whether a run may go by the state, and need not read all commits again.

    Refs that were restored brought commits that name objects of an earlier repository. The state
    may know those commits, from before their objects counted as this repository's.

    A state forgets what commits name in closed partitions, since that stays; but not if commits
    have expired since.

    A state from the future is not used either: the clock was ahead then, so partitions count as
    closed that are not.

    Args:
        saved: What the run before left; None: there was none.
        began_us: When the preparation of this run began.
        repository_uids: Whose objects this run looks at.
        expired_ids: The set of expired commits that this run goes by.
    """
    return (
        saved is not None
        and saved.began_us <= began_us
        and set(repository_uids) <= set(saved.repository_uids)
        and tuple(expired_ids) == tuple(saved.expired_ids)
    )


def is_closed(stored: ScannedObject, state: State) -> bool:
    """Whether the object's partition could get no more objects when the state was left."""
    return stored.made_us < state.closed_before_us


def due(judged: Iterable[Judged], look: ObservationTimes) -> list[Judged]:
    """Return the candidates that this run deletes: an earlier run found them long enough ago."""
    return [
        one
        for one in judged
        if one.found_us is not None and look.began_us - one.found_us >= look.gap_us
    ]


def freed(judged: Iterable[Judged], old: AbstractSet[str]) -> list[Judged]:
    """Return the candidates that old commits name: those that have expired, or are about to."""
    return [one for one in judged if one.verdict is Verdict.CANDIDATE and one.stored.path in old]


def check_share(due_count: int, known_count: int, *, max_share: float) -> None:
    """Stop a run that would delete too large a part of a repository.

    Raises:
        TooMuchGarbage: It would; nothing was deleted.
    """
    if due_count > BRAKE_OBJECTS_MIN and due_count > max_share * known_count:
        raise TooMuchGarbage(due_count, known_count, max_share)


def looked_at(state: State, listed: Iterable[ScannedObject]) -> Iterator[ScannedObject]:
    """Iterate over the objects that an optimized run judges.

    These are what it lists, all but closed partitions, and what the state remembers of those.
    """
    yield from listed
    for judged in state.objects.values():
        if is_closed(judged.stored, state):
            yield judged.stored


def saved_commit_named(state: State) -> set[str]:
    """Return the paths that the commits known to the state name, in partitions that are open."""
    objects = state.objects.values()
    return {judged.stored.path for judged in objects if judged.verdict in COMMIT_NAMED}


def judge(
    looked: Iterable[ScannedObject],
    *,
    committed: AbstractSet[str],
    held: AbstractSet[str],
    state: State | None,
    look: ObservationTimes,
) -> Iterator[Judged]:
    """Iterate over objects with their verdicts, and over committed ones that no listing showed.

    Args:
        looked: The objects.
        committed: The paths that commit records name.
        held: The paths that staging, links and open uploads name.
        state: What the run before left; candidates keep the time at which they were found.
        look: The times of this look.
    """
    unseen = set(committed)
    for stored in looked:
        unseen.discard(stored.path)
        if stored.path in committed:
            yield Judged(stored, Verdict.COMMITTED)
        elif stored.path in held:
            yield Judged(stored, Verdict.HELD)
        elif stored.born_us >= look.cutoff_us:
            yield Judged(stored, Verdict.YOUNG)
        else:
            yield Judged(stored, Verdict.CANDIDATE, _found_us(stored, state, look))
    for path in unseen:
        parts = ObjectPath.parse(path)
        if parts is not None:
            yield Judged(ScannedObject(path, 0, 0, parts.made_us), Verdict.UNSEEN)


def _found_us(stored: ScannedObject, state: State | None, look: ObservationTimes) -> int:
    """Return when a candidate was first found; now, if it is new.

    Also now if that time is in the future: the clock was ahead, and how long ago is not known.
    """
    before = state.objects.get(stored.path) if state is not None else None
    if before is None or before.found_us is None:
        return look.ended_us
    return min(before.found_us, look.ended_us)


def next_state(
    judged: Iterable[Judged],
    *,
    deleted: AbstractSet[str],
    repository_uids: AbstractSet[str],
    commits: AbstractSet[str],
    state: State | None,
    look: ObservationTimes,
) -> State:
    """Return what this run leaves to the next, once it has swept.

    Args:
        judged: What it found.
        deleted: The paths that it has deleted.
        repository_uids: Whose objects it looked at.
        commits: The commit records that it knows of.
        state: Of an optimized run, the state that it used: closed partitions stay closed, also
            when the server's times were made longer.
        look: Its times.
    """
    closed_before_us = max(look.closed_before_us, state.closed_before_us if state else 0)
    after = State(
        repository_uids=frozenset(repository_uids),
        began_us=look.began_us,
        closed_before_us=closed_before_us,
        commits=frozenset(commits),
        objects={},
    )
    objects = {
        one.stored.path: one
        for one in judged
        if one.stored.path not in deleted and remembered(one, after)
    }
    return replace(after, objects=objects)


def remembered(judged: Judged, state: State) -> bool:
    """Whether the next run must know of an object.

    Open partitions are listed again, but known commits are not read again: so what commits name is
    remembered, listed or not, and when candidates were found. Closed partitions are not listed
    again: so all is remembered except what commits name, since that stays.
    """
    if judged.verdict is Verdict.CANDIDATE:
        return True
    return is_closed(judged.stored, state) is not (judged.verdict in COMMIT_NAMED)
