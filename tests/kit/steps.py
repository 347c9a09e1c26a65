"""Counts the calls that an engine makes one after the other, to its store and its storage.

What runs side by side (`Runtime.map_parallel`) is done here one after the other, so that a count is
the same every time, but counts as one step: that of the longest branch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lakebed.base.runtime import ItemT, ResultT, ThreadRuntime
from lakebed.block import Address, ETag
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.testing.faults import StoreCall

ReplyT = TypeVar("ReplyT")


@dataclass(slots=True)
class Steps:
    """What was called since the last `clear`."""

    store: int = 0
    """Calls to the store in sequence."""
    durable: int = 0
    """Writes in sequence, to the store and to the storage, each of which is synced to a disk."""
    calls: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Begin to count."""
        self.store = self.durable = 0
        self.calls.clear()

    def count_store(self, call: StoreCall, apply: Callable[[], ReplyT]) -> ReplyT:
        """Count a call to a `FaultyStore`."""
        self.store += 1
        self.durable += call.writes
        self.calls.append(call.operation)
        return apply()

    def count_block(self, name: str, *, writes: bool) -> None:
        """Count a call to the storage."""
        self.durable += writes
        self.calls.append(name)


class StepRuntime(ThreadRuntime):
    """A runtime whose parallel calls count as one step."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        steps = self._steps
        work = list(items)
        assert len(work) <= limit, "more calls than may run at a time: they are not one step"
        begun = ended = (steps.store, steps.durable)
        results = []
        for item in work:
            steps.store, steps.durable = begun
            results.append(function(item))
            ended = max(ended[0], steps.store), max(ended[1], steps.durable)
        steps.store, steps.durable = ended
        return results


class StepBlockStore(MemoryBlockStore):
    """A storage that counts the files that are read and created."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(StepRuntime(steps))
        self._steps = steps

    def create(self, address: Address, data: bytes) -> ETag:
        self._steps.count_block("create", writes=True)
        return super().create(address, data)

    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        # Drivers write them side by side.
        return StepRuntime(self._steps).map_parallel(lambda each: self._is_created(*each), objects)

    def read(self, address: Address) -> bytes:
        self._steps.count_block("read", writes=False)
        return super().read(address)
