"""Definition of garbage in plain Python; `frames` implements the same on Spark.

**Two-phase marking.** A run makes an observation of the repository: the server *prepares*, which
means that it writes all staged, open and committed references, and the job lists the storage for
objects without any of these references. Such an object is a *candidate*. A later run deletes it, if
its preparation began at least the gap after the end of the preparation that found the candidate,
and if every observation since agreed.

**Safety.** An object old enough to be a candidate is too old to be staged, since writers check its
age. So all references to it were written before the first observation began, and references only
move in the direction in which a preparation reads: from open uploads to staging to commit records.
Only a commit in progress can hide an object from an observation, if the commit has read an entry
which was then overwritten. Its commit record exists before the second observation begins, or it
reads again.

**Optimized runs.** A run saves its findings as `State`, so that the next run need not read all
commits and list all objects again. Partitions that can get no more objects are *closed*; the state
only has their objects that may still become garbage. For the same history both kinds of runs find
the same candidates and delete the same objects.

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

UNCHECKED_OBJECTS_MAX: Final = 1000
"""Up to this number of objects are deleted regardless of their share."""


class Verdict(StrEnum):
    """Verdict of an observation on an object."""

    COMMITTED = "committed"
    """Referenced by an unexpired commit: stays until the commit expires."""

    HELD = "held"
    """Referenced only by staging, a link or an upload: may become garbage."""

    YOUNG = "young"
    """Unreferenced, but may still be referenced."""

    CANDIDATE = "candidate"
    """Garbage, unless a later observation disagrees."""

    UNSEEN = "unseen"
    """Referenced by a commit record, but not listed. If it appears later (listings can be delayed,
    and lost objects restored), it stays."""


COMMIT_REFERENCED: Final = frozenset({Verdict.COMMITTED, Verdict.UNSEEN})
"""Verdicts on objects referenced by commit records, listed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTimes:
    """The times of one preparation, fixed by the server."""

    began_us: int
    ended_us: int
    cutoff_us: int
    """Objects written later are young."""
    closed_before_us: int
    """Partitions created earlier can get no more objects."""
    gap_us: int


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """An object as listed by the storage."""

    path: str
    size: int
    born_us: int
    """When it was issued or written, whichever is later."""
    made_us: int
    """Creation time of its partition."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An object with its verdict."""

    stored: ScannedObject
    verdict: Verdict
    found_us: int | None = None
    """For a candidate: end of the first preparation that found it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State passed from a run to the next."""

    repository_uids: frozenset[str]
    """Owners of the observed objects: the repository, and earlier repositories whose refs it
    restored."""
    began_us: int
    closed_before_us: int
    """Partitions created earlier are closed."""
    commits: frozenset[str]
    objects: Mapping[str, Judged]
    """By path; see `remembered`."""
    expired_ids: tuple[str, ...] = ()
    """The set of expired commits used by the run."""


def is_adopted(path: str) -> bool:
    """Return whether a path is a full address, of an object in an adopted namespace."""
    return "://" in path


def canonical_path(
    address: str, address_type: AddressType, namespace: Namespace, adopted: Collection[str] = ()
) -> str | None:
    """Return the path of an entry's address in a namespace, or None if it is elsewhere.

    The path of an object in an `adopted` folder is its full address.

    Entries reference the same object by its path or by its full address. Garbage collection
    compares paths only: otherwise a live object could look like garbage. For the same reason an
    unreadable address references the object whose path it ends with.

    Raises:
        InvalidAddress: The address is unreadable, and may be an adopted object's, whose path has no
            recognizable form.
    """
    if address_type is AddressType.RELATIVE:
        return address
    try:
        whole = Address.parse(address)
    except InvalidAddress as error:
        if adopted:
            raise InvalidAddress(
                f"an entry has an unreadable address {address!r}: {error}"
            ) from error
        _LOGGER.warning("an entry has an unreadable address (see `lakebed fsck`): %r", address)
        return path_at_end(address)
    if str(whole).startswith(tuple(adopted)):
        return str(whole)
    return namespace.relative(whole) if whole in namespace else None


def stored_object(path: str, *, size: int, mtime_us: int) -> ScannedObject | None:
    """Return a listed object, or None if garbage collection must not touch it."""
    parts = ObjectPath.parse(path)
    if parts is None:
        return None
    return ScannedObject(path, size, max(parts.issued_us, mtime_us), parts.made_us)


class SavedObservation(Protocol):
    """The state of the previous run, as read by `may_optimize`."""

    @property
    def began_us(self) -> int:
        """Start of its preparation."""

    @property
    def repository_uids(self) -> Collection[str]:
        """Owners of the observed objects."""

    @property
    def expired_ids(self) -> Collection[str]:
        """The set of expired commits used by the run."""


def may_optimize(
    saved: SavedObservation | None,
    *,
    began_us: int,
    repository_uids: Collection[str],
    expired_ids: Collection[str] = (),
) -> bool:
    """Return whether a run may use the state instead of reading all commits again.

    Restored refs bring commits that reference objects of an earlier repository. The state may know
    these commits from before their objects counted as this repository's.

    A state omits references from commits to objects in closed partitions, which are permanent
    unless commits have expired since.

    A state from the future is not used: the clock was ahead, so partitions were closed too early.
    """
    return (
        saved is not None
        and saved.began_us <= began_us
        and set(repository_uids) <= set(saved.repository_uids)
        and tuple(expired_ids) == tuple(saved.expired_ids)
    )


def is_closed(stored: ScannedObject, state: State) -> bool:
    """Return whether the object's partition was closed when the state was saved."""
    return stored.made_us < state.closed_before_us


def due(judged: Iterable[Judged], times: ObservationTimes) -> list[Judged]:
    """Return the candidates deleted by this run: an earlier run found them long enough ago."""
    return [
        one
        for one in judged
        if one.found_us is not None and times.began_us - one.found_us >= times.gap_us
    ]


def freed(judged: Iterable[Judged], old: AbstractSet[str]) -> list[Judged]:
    """Return the candidates referenced by old commits, expired or about to expire."""
    return [one for one in judged if one.verdict is Verdict.CANDIDATE and one.stored.path in old]


def check_share(due_count: int, known_count: int, *, max_share: float) -> None:
    """Raise `TooMuchGarbage` if a run would delete too large a share of a repository."""
    if due_count > UNCHECKED_OBJECTS_MAX and due_count > max_share * known_count:
        raise TooMuchGarbage(due_count, known_count, max_share)


def observed_objects(state: State, listed: Iterable[ScannedObject]) -> Iterator[ScannedObject]:
    """Yield the objects judged by an optimized run.

    They are the listed objects of open partitions, and the state's objects of closed partitions.
    """
    yield from listed
    for judged in state.objects.values():
        if is_closed(judged.stored, state):
            yield judged.stored


def saved_commit_referenced(state: State) -> set[str]:
    """Return the paths in open partitions that known commits reference."""
    objects = state.objects.values()
    return {judged.stored.path for judged in objects if judged.verdict in COMMIT_REFERENCED}


def judge(
    observed: Iterable[ScannedObject],
    *,
    committed: AbstractSet[str],
    uncommitted: AbstractSet[str],
    state: State | None,
    times: ObservationTimes,
) -> Iterator[Judged]:
    """Yield objects with their verdicts, and committed objects that were not listed.

    `committed` are the paths referenced by commit records, `uncommitted` by staging, links and open
    uploads. Candidates keep the time of finding in the previous run's `state`.
    """
    unseen = set(committed)
    for stored in observed:
        unseen.discard(stored.path)
        if stored.path in committed:
            yield Judged(stored, Verdict.COMMITTED)
        elif stored.path in uncommitted:
            yield Judged(stored, Verdict.HELD)
        elif stored.born_us >= times.cutoff_us:
            yield Judged(stored, Verdict.YOUNG)
        else:
            yield Judged(stored, Verdict.CANDIDATE, _found_us(stored, state, times))
    for path in unseen:
        parts = ObjectPath.parse(path)
        if parts is not None:
            yield Judged(ScannedObject(path, 0, 0, parts.made_us), Verdict.UNSEEN)


def _found_us(stored: ScannedObject, state: State | None, times: ObservationTimes) -> int:
    """Return when a candidate was first found; now, if it is new.

    Also now if the saved time is in the future: the clock was ahead, so its age is unknown.
    """
    before = state.objects.get(stored.path) if state is not None else None
    if before is None or before.found_us is None:
        return times.ended_us
    return min(before.found_us, times.ended_us)


def next_state(
    judged: Iterable[Judged],
    *,
    deleted: AbstractSet[str],
    repository_uids: AbstractSet[str],
    commits: AbstractSet[str],
    state: State | None,
    times: ObservationTimes,
) -> State:
    """Return the state for the next run, after the sweep.

    Closed partitions of the `state` used by an optimized run stay closed even if the server's times
    were increased.
    """
    closed_before_us = max(times.closed_before_us, state.closed_before_us if state else 0)
    after = State(
        repository_uids=frozenset(repository_uids),
        began_us=times.began_us,
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
    """Return whether the next run must know an object.

    Open partitions are listed again, but known commits are not read again: the state needs
    candidates and all objects referenced by commits, listed or not. Closed partitions are not
    listed again: the state needs all their objects except those referenced by commits, which stay.
    """
    if judged.verdict is Verdict.CANDIDATE:
        return True
    return is_closed(judged.stored, state) is not (judged.verdict in COMMIT_REFERENCED)
