"""Sees every write as it is applied, and checks the rules for repositories."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import Address, ETag, Namespace, ObjectNotFound, PutResult
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.keys import CLAIMS, GRAVELER, REPOSITORIES
from lakebed.engine.model import FilesRoot, RepositoryID, repository_partition
from lakebed.engine.repositories.ownership import RepositoryRecord
from lakebed.engine.repositories.removal import ACTIVE, DELETING, INITIAL
from lakebed.formats import OWNER_PATH, decode_owner
from lakebed.kv import ANY, Item, Put
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.kv.store import DeletePredicate
from lakebed.testing.simulation.simulator import Simulation
from tests.simulation.truth import Truth

ABSENT_STATE: Final = 0
# The changes of state that a record may make; its unique id must not change.
LEGAL: Final = {
    (ABSENT_STATE, INITIAL),
    (INITIAL, ACTIVE),
    (INITIAL, DELETING),
    (ACTIVE, ACTIVE),
    (ACTIVE, DELETING),
    (DELETING, ABSENT_STATE),
}


@dataclass
class Span:
    """A record under a name, and the steps during which it did not change."""

    name: str
    unique_id: str
    state: int
    namespace: Namespace
    creator: object
    """The task that made the first record with this unique id."""
    since: int
    until: int = 1 << 60

    @property
    def partition(self) -> bytes:
        return repository_partition(RepositoryID(self.name), UniqueID(self.unique_id))

    def meets(self, began: int, ended: int) -> bool:
        return self.since <= ended and self.until >= began


class WatchedStore(MemoryStore):
    """Reports every write that is applied."""

    def __init__(
        self,
        runtime: Runtime,
        tell: Callable[[bytes, bytes, Item | None], None],
        tell_erased: Callable[[bytes, bytes], None] = lambda _partition, _key: None,
    ) -> None:
        super().__init__(runtime)
        self._tell_of = tell
        """Gets partition and key, with what is there now; None: the key is deleted."""
        self.tombstones: dict[tuple[bytes, bytes], float] = {}
        """When the keys were deleted of which a database would still keep tombstones."""
        self._tell_erased = tell_erased

    def _tell(self, partition: bytes, key: bytes) -> None:
        self._tell_of(partition, key, MemoryStore.get_many(self, [(partition, key)])[0])

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        """Write and report; `set` comes here too."""
        found = super().write(writes, reads)
        for put in writes:
            self._tell(put.partition, put.key)
        return found

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        lived = self._find(partition, key) is not None
        super().delete(partition, key, predicate)
        if lived:
            self._tell(partition, key)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        del limit
        for of, key in list(self.tombstones):
            if of == partition and key >= start and not (end and key >= end):
                del self.tombstones[of, key]
                self._tell_erased(of, key)
        return None


class WatchedBlock(MemoryBlockStore):
    """Reports when an owner object was written."""

    def __init__(self, runtime: Runtime, tell: Callable[[], None]) -> None:
        super().__init__(runtime)
        self._tell = tell

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        result = super().put(address, chunks)
        self._written(address)
        return result

    def create(self, address: Address, data: bytes) -> ETag:
        result = super().create(address, data)
        self._written(address)
        return result

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        result = super().replace(address, data, etag)
        self._written(address)
        return result

    def _written(self, address: Address) -> None:
        if address.path.endswith(OWNER_PATH):
            self._tell()


class Monitor:
    """Records which repositories existed when, and which rules were broken."""

    def __init__(self, simulation: Simulation, runtime: Runtime) -> None:
        self.store = WatchedStore(runtime, self._applied, self._erased)
        self.block = WatchedBlock(runtime, self.look)
        self.truth = Truth(simulation, self.violation, self.is_there)
        self.homes: dict[bytes, FilesRoot] = {}
        """By partition, for all repositories that ever existed."""
        self.violations: list[str] = []
        self.erased: dict[tuple[bytes, bytes], float] = {}
        """When tasks erased the tombstones of keys."""
        self.revived: list[tuple[bytes, bytes]] = []
        """Keys that were written after their tombstones had been erased."""
        self.spans: list[Span] = []
        self.deletes_under_way: Counter[str] = Counter()
        self._simulation = simulation
        self._current: dict[str, Span] = {}

    def _applied(self, partition: bytes, key: bytes, item: Item | None) -> None:
        self.truth.applied(partition, key, item)
        if item is None:
            self.store.tombstones[partition, key] = self._simulation.seconds
        else:
            self.store.tombstones.pop((partition, key), None)
            if (partition, key) in self.erased:
                self.revived.append((partition, key))
        if partition == GRAVELER:
            self.look()

    def _erased(self, partition: bytes, key: bytes) -> None:
        if self._simulation.current_task is not None:
            self.erased[partition, key] = self._simulation.seconds

    def look(self) -> None:
        """Compare the records with the previous ones, and with the rules."""
        records = {record.name.decode(): record for record in self.records()}
        for name in sorted(records.keys() | self._current.keys()):
            self._follow(name, records.get(name))
        active = [span for span in self._current.values() if span.state == ACTIVE]
        for one, other in combinations(active, 2):
            if overlap(one.namespace, other.namespace):
                self.violation(f"{one} and {other} are both active")
        for span in active:
            if (owner := self._owner(span.namespace)) != span.unique_id:
                self.violation(f"{span} is active, but its owner object names {owner}")

    def records(self) -> Iterator[RepositoryRecord]:
        return Records(self.store, REPOSITORIES, GRAVELER).scan()

    def violation(self, what: str) -> None:
        self.violations.append(f"step {self._simulation.step}: {what}")

    # Which records existed when

    def at(self, name: str, began: int, ended: int) -> list[Span]:
        """All records that existed under a name at any time between two steps."""
        return [span for span in self.spans if span.name == name and span.meets(began, ended)]

    def is_there(self, partition: bytes) -> bool:
        """Whether a repository with this partition has a record, in any state."""
        return any(span.partition == partition for span in self._current.values())

    def active_partitions(self, name: str, began: int, ended: int) -> list[bytes]:
        """The partitions of a repository that was active at some time between two steps."""
        spans = self.at(name, began, ended)
        return [span.partition for span in spans if span.state == ACTIVE]

    def active_throughout(self, began: int, ended: int) -> list[Span]:
        return [
            span
            for span in self.spans
            if span.state == ACTIVE and span.since < began and span.until > ended
        ]

    def _follow(self, name: str, record: RepositoryRecord | None) -> None:
        before = self._current.get(name)
        after = self._span(name, record, before)
        old = (before.unique_id, before.state) if before else ("", ABSENT_STATE)
        new = (after.unique_id, after.state) if after else ("", ABSENT_STATE)
        if old == new:
            return
        same = not old[0] or not new[0] or old[0] == new[0]
        if not same or (old[1], new[1]) not in LEGAL:
            self.violation(f"the record of {name} went from {old} to {new}")
        if old[1] == ACTIVE and not self.deletes_under_way[name]:
            self.violation(f"{name} stopped being active, but nobody was deleting it")
        if before:
            before.until = self._simulation.step
            del self._current[name]
        if before and not after:
            self.truth.disown(before.partition)
        if after:
            self.spans.append(after)
            self.homes[after.partition] = FilesRoot(after.namespace, UniqueID(after.unique_id))
            self._current[name] = after

    def _span(self, name: str, record: RepositoryRecord | None, before: Span | None) -> Span | None:
        if record is None:
            return None
        message = record.message
        creator: object = self._simulation.current_task
        if before is not None and before.unique_id == message.unique_id:
            creator = before.creator
        return Span(
            name,
            message.unique_id,
            message.state,
            Namespace.parse(message.storage_namespace),
            creator,
            self._simulation.step,
        )

    def _owner(self, namespace: Namespace) -> str | None:
        try:
            data = self.block.read(namespace.address(OWNER_PATH))
        except ObjectNotFound:
            return None
        return decode_owner(data, file="").unique_id

    def claims(self) -> dict[str, str]:
        """Namespaces and the unique ids that claim them."""
        records = Records(self.store, CLAIMS, GRAVELER).scan()
        return {record.name.decode(): record.message.unique_id for record in records}


def overlap(one: Namespace, other: Namespace) -> bool:
    return str(one).startswith(str(other)) or str(other).startswith(str(one))
