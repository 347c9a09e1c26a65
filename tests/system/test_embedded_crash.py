"""A process that is killed loses nothing that it acknowledged, and applies nothing twice."""

import random
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakebed.kv import Store, open_store
from tests.kit.rounds import rounds
from tests.system import acknowledging_child as child

ROUNDS = rounds(6, long=200)
THREADS = 3
START_SECONDS = 60.0
LONGEST_LIFE_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class Child:
    process: subprocess.Popen[bytes]
    name: str
    first_slot: int

    def wait_for_first_write(self) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        assert ready, "the writing process did not start"
        assert self.process.poll() is None, "the writing process ended by itself"

    def kill(self) -> "Acknowledged":
        self.process.kill()
        output, _ = self.process.communicate()
        acknowledged = Acknowledged(Counter(), Counter())
        for kind, thread, _ in child.ACKNOWLEDGEMENT.iter_unpack(output):
            counter = acknowledged.plain if kind == child.PLAIN else acknowledged.conditional
            counter[thread] += 1
        return acknowledged


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How many writes of each thread."""

    plain: Counter[int]
    conditional: Counter[int]


def start(url: str, name: str, first_slot: int) -> Child:
    arguments = [url, name, str(first_slot), str(THREADS)]
    process = subprocess.Popen(
        [sys.executable, child.__file__, *arguments], stdout=subprocess.PIPE, bufsize=0
    )
    return Child(process, name, first_slot)


def tally(store: Store) -> list[int]:
    record = store.get(child.PARTITION, child.TALLY).value
    return [count for (count,) in child.SLOT.iter_unpack(record)]


def check_plain(store: Store, name: str, acknowledged: Acknowledged) -> None:
    for thread in range(THREADS):
        prefix = child.plain_key(name, thread, 0)[:-8]
        found = [
            (entry.key, entry.value)
            for entry in store.scan(child.PARTITION, prefix)
            if entry.key.startswith(prefix)
        ]
        expected = [(child.plain_key(name, thread, n), b"%d" % n) for n in range(len(found))]
        assert found == expected
        # The last write may have been applied without being acknowledged any more.
        assert len(found) - acknowledged.plain[thread] in {0, 1}


def check_conditional(
    before: list[int], after: list[int], first_slot: int, acknowledged: Acknowledged
) -> None:
    for thread in range(THREADS):
        applied = after[first_slot + thread] - before[first_slot + thread]
        assert applied - acknowledged.conditional[thread] in {0, 1}


def run_and_kill(url: str, number: int, processes: int) -> list[tuple[Child, Acknowledged]]:
    """Let processes write and kill each at a random moment; return what they acknowledged."""
    children = [start(url, f"{number}-{each}", each * THREADS) for each in range(processes)]
    try:
        for each in children:
            each.wait_for_first_write()
        killed = []
        # One after the other: the survivor goes on writing beside the remains of the first.
        for each in children:
            time.sleep(random.random() * LONGEST_LIFE_SECONDS)
            killed.append((each, each.kill()))
        return killed
    finally:
        for each in children:
            each.process.kill()
            each.process.wait()


@pytest.mark.parametrize(("scheme", "processes"), [("sqlite", 2), ("rocksdb", 1)])
def test_acknowledged_writes_survive_a_kill(tmp_path: Path, scheme: str, processes: int) -> None:
    url = f"{scheme}:///{tmp_path}/lakebed.db"
    slots = processes * THREADS
    with open_store(url) as store:
        store.set(child.PARTITION, child.TALLY, bytes(slots * child.SLOT.size))
    before = [0] * slots
    total = 0
    for number in range(ROUNDS):
        killed = run_and_kill(url, number, processes)
        with open_store(url) as store:
            after = tally(store)
            for each, acknowledged in killed:
                check_plain(store, each.name, acknowledged)
                check_conditional(before, after, each.first_slot, acknowledged)
                total += acknowledged.plain.total() + acknowledged.conditional.total()
        before = after
    assert total > ROUNDS * slots
