"""Sees every write to repositories as it is applied, and knows what must never be."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from lakebed.block import Address, ETag, Namespace, ObjectNotFound, PutResult
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.formats import OWNER_PATH, decode_owner
from lakebed.graveler.keys import CLAIMS, GRAVELER, REPOSITORIES
from lakebed.graveler.removal import ACTIVE, DELETING, INITIAL, RepositoryRecord
from lakebed.kv import Predicate, Version
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.runtime import Runtime
from lakebed.testing.simulator import Simulation

ABSENT_STATE: Final = 0
# From one record under a name to the next, as (unique id, state); the unique id stays where both
# have one.
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
    """A record under a name, and from which step to which it was as it was."""

    name: str
    unique_id: str
    state: int
    namespace: Namespace
    creator: str
    """The actor that made the first record with this unique id."""
    since: int
    until: int = 1 << 60

    def meets(self, began: int, ended: int) -> bool:
        return self.since <= ended and self.until >= began


class WatchedStore(MemoryStore):
    """Tells of every write to the partition of repositories and claims."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.changed: Callable[[], None] = lambda: None

    def set(
        self, partition: bytes, key: bytes, value: bytes, *, version: Version | None = None
    ) -> Version:
        result = super().set(partition, key, value, version=version)
        self._tell(partition)
        return result

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        *,
        version: Version | None = None,
    ) -> Version:
        result = super().set_if(partition, key, value, predicate, version=version)
        self._tell(partition)
        return result

    def delete(self, partition: bytes, key: bytes) -> None:
        super().delete(partition, key)
        self._tell(partition)

    def delete_if(self, partition: bytes, key: bytes, predicate: Version) -> None:
        super().delete_if(partition, key, predicate)
        self._tell(partition)

    def partitions(self) -> list[bytes]:
        return sorted(self._partitions)

    def _tell(self, partition: bytes) -> None:
        if partition == GRAVELER:
            self.changed()


class WatchedBlock(MemoryBlockStore):
    """Tells of every object that was written."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.changed: Callable[[], None] = lambda: None

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        result = super().put(address, chunks)
        self.changed()
        return result

    def create(self, address: Address, data: bytes) -> ETag:
        result = super().create(address, data)
        self.changed()
        return result

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        result = super().replace(address, data, etag)
        self.changed()
        return result


class Monitor:
    """What was when, and what should not have been."""

    def __init__(self, simulation: Simulation, runtime: Runtime) -> None:
        self.store = WatchedStore(runtime)
        self.block = WatchedBlock(runtime)
        self.store.changed = self.look
        self.block.changed = self.look
        self.violations: list[str] = []
        self.spans: list[Span] = []
        self.deletes_under_way: Counter[str] = Counter()
        self._simulation = simulation
        self._current: dict[str, Span] = {}

    def look(self) -> None:
        """Compare what is there with what was there, and with the rules."""
        records = {record.name.decode(): record for record in self.records()}
        for name in sorted(records.keys() | self._current.keys()):
            self._follow(name, records.get(name))
        active = [span for span in self._current.values() if span.state == ACTIVE]
        for one, other in combinations(active, 2):
            if overlap(one.namespace, other.namespace):
                self.violation(f"{one} and {other} are both active")
        for span in active:
            if (owner := self._owner(span.namespace)) != span.unique_id:
                self.violation(f"{span} is active, and its owner object names {owner}")

    def records(self) -> Iterator[RepositoryRecord]:
        return Records(self.store, REPOSITORIES, GRAVELER).scan()

    def violation(self, what: str) -> None:
        self.violations.append(f"step {self._simulation.step}: {what}")

    # What was when

    def at(self, name: str, began: int, ended: int) -> list[Span]:
        """All records that there were under a name, at some moment from one step to another."""
        return [span for span in self.spans if span.name == name and span.meets(began, ended)]

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
            self.violation(f"{name} ceased to be active, and nobody was deleting it")
        if before:
            before.until = self._simulation.step
            del self._current[name]
        if after:
            self.spans.append(after)
            self._current[name] = after

    def _span(self, name: str, record: RepositoryRecord | None, before: Span | None) -> Span | None:
        if record is None:
            return None
        message = record.message
        current = self._simulation._current
        creator = current.actor.name if current else ""
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
