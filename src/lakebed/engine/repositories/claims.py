"""Claims on storage namespaces: no two repositories keep their data in the same place.

A claim is a record under the canonical text of a namespace. It names a repository by its unique id.
Nested namespaces exclude each other too, which no single write can ensure. Hence the rule: *first
claim, then look*. Of two creators with nested namespaces, at least one looks after both have
claimed, sees the other, and gives way. If both see each other, the one with the smaller unique id
waits for the other to do so (`Repositories._keeps`).

**Dead claims.** The record of a repository is written before its claim and, once gone, never comes
back: each unique id is drawn once. So if the record of a repository does not hold the unique id of
a claim, the claim is dead for ever, and anyone may take it over. To find that out, the claim is
read first and the record after it.

Only its own creator writes a claim, and only `Claims.release` removes it: by `delete_if` of the
very record that names the unique id, after that repository is gone. So a slow process never removes
the claim of a later creator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.base.ids import UniqueID
from lakebed.block import Address, Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NamespaceTaken, TooManyTries
from lakebed.engine.keys import CLAIMS, CLOSED, GRAVELER
from lakebed.engine.model import RepositoryID
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records

_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Claimant:
    """One creation of a repository."""

    repository: RepositoryID
    unique_id: UniqueID


Lives = Callable[[Claimant], bool]
"""Whether the record of a repository holds this unique id, and will not be ended."""


class Claims:
    """The claims of all repositories on their namespaces."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = Records(store, CLAIMS, GRAVELER)
        self._closed = Records(store, CLOSED, GRAVELER)

    def check_size(self, namespace: Namespace) -> None:
        """Refuse a namespace that the store could not hold claimed, or later closed.

        Raises:
            LimitExceeded: It is too long.
        """
        for kind in (CLAIMS, CLOSED):
            self._store.limits.check(GRAVELER, kind.prefix + _name(namespace))

    def take(self, namespace: Namespace, claimant: Claimant, lives: Lives) -> None:
        """Claim a namespace for a repository whose record is there.

        Raises:
            NamespaceTaken: A repository that lives keeps its data there, above or below. The claim
                may have been made: the caller releases it, once the claimant is gone.
            OutcomeUnknown: The claim may have been made.
        """
        self._claim(namespace, claimant, lives)
        for record in self._neighbours(namespace):
            _refuse_if_alive(namespace, record, lives)

    def release(self, namespace: Namespace, claimant: Claimant) -> bool:
        """Free the namespace of a repository that is gone; return whether it held a claim.

        Raises:
            OutcomeUnknown: The claim may still be there; it is dead and in nobody's way.
        """
        record = self._records.find(_name(namespace))
        if record is None or _claimant(record) != claimant:
            return False
        try:
            self._records.delete_if(record.name, record.predicate)
        except PredicateFailed:
            return False  # someone took it over or freed it
        return True

    def list(self, on_broken: Callable[[bytes], object]) -> Iterator[tuple[Namespace, Claimant]]:
        """Iterate over all claims, dead or alive; as `Records.scan_readable`."""
        for record in self._records.scan_readable(on_broken):
            yield Namespace.parse(record.name.decode()), _claimant(record)

    def around(self, address: Address) -> tuple[Sequence[Claimant], Claimant | None]:
        """Return whom records name for the namespaces that hold an address; in one call.

        Returns:
            The claims on them, dead or alive; and the deleted repository that left its objects
            there (see `close`), if there is one.
        """
        folder = address.path[: address.path.rfind("/", 0, -1) + 1]
        innermost = Namespace(address.store, folder)
        names = [_name(each) for each in (innermost, *_ancestors(innermost))]
        found = self._store.get_many(
            [(GRAVELER, kind.prefix + name) for kind in (CLAIMS, CLOSED) for name in names]
        )
        count = len(names)
        claimed = (self._records.decode(item) for item in found[:count] if item is not None)
        closed = (self._closed.decode(item) for item in found[count:] if item is not None)
        return [_claimant(each) for each in claimed], next(map(_claimant, closed), None)

    def near(self, namespace: Namespace) -> Iterator[Claimant]:
        """Iterate over the claims, dead or alive, on a namespace, above it and below it."""
        yield from _near(self._records, namespace)

    def closed_near(self, namespace: Namespace) -> Claimant | None:
        """Return a deleted repository that left objects near a namespace; see `close`."""
        return next(_near(self._closed, namespace), None)

    def close(self, namespace: Namespace, claimant: Claimant, closed_us: int) -> None:
        """Note that the objects of a repository stay when it is deleted.

        It is remembered for good: a deletion takes away the rules of who may read the objects, and
        the objects stay.

        Raises:
            OutcomeUnknown: It may have been noted, which does no harm.
        """

        def note(message: pb.NamespaceClaim) -> None:
            message.repository, message.unique_id = claimant.repository, claimant.unique_id
            message.closed_us = closed_us

        self._closed.change(_name(namespace), note)

    def _claim(self, namespace: Namespace, claimant: Claimant, lives: Lives) -> None:
        message = pb.NamespaceClaim(repository=claimant.repository, unique_id=claimant.unique_id)
        for _ in range(_TRIES):
            found = self._records.find(_name(namespace))
            if found is not None:
                if _claimant(found) == claimant:
                    return  # an earlier write worked, and its reply was lost
                _refuse_if_alive(namespace, found, lives)
            predicate: Predicate = ABSENT if found is None else found.predicate
            # If it fails, someone was faster; if that is unknown, the next read shows it.
            try:
                self._records.set_if(_name(namespace), message, predicate)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue
            return
        raise TooManyTries(f"the claim of namespace {namespace}", _TRIES)

    def _neighbours(self, namespace: Namespace) -> Iterator[Record[pb.NamespaceClaim]]:
        """Iterate over the claims on namespaces above this one and below it."""
        for above in _ancestors(namespace):
            record = self._records.find(_name(above))
            if record is not None:
                yield record
        for record in self._records.scan(prefix=_name(namespace)):
            if record.name != _name(namespace):
                yield record


def _near(records: Records[pb.NamespaceClaim], namespace: Namespace) -> Iterator[Claimant]:
    """Yield the repositories whose namespace contains this one or lies in it."""
    for above in _ancestors(namespace):
        record = records.find(_name(above))
        if record is not None:
            yield _claimant(record)
    yield from map(_claimant, records.scan(prefix=_name(namespace)))


def _refuse_if_alive(namespace: Namespace, record: Record[pb.NamespaceClaim], lives: Lives) -> None:
    holder = _claimant(record)
    if lives(holder):
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: repository {holder.repository} keeps its"
            f" data in {record.name.decode()}. Use another one"
        )


def _claimant(record: Record[pb.NamespaceClaim]) -> Claimant:
    message = record.message
    return Claimant(RepositoryID(message.repository), UniqueID(message.unique_id))


def _name(namespace: Namespace) -> bytes:
    """Return the canonical text. It ends in a slash: a prefix of it is a namespace above it."""
    return str(namespace).encode()


def _ancestors(namespace: Namespace) -> Iterator[Namespace]:
    """Iterate over the namespaces that hold this one."""
    prefix = namespace.prefix
    while prefix:
        prefix = prefix[: prefix.rfind("/", 0, -1) + 1]
        yield Namespace(namespace.store, prefix)
