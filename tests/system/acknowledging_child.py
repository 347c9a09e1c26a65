"""Writes to a store from several threads, and acknowledges each write on standard output.

Arguments: the URL, a name for this process, the number of threads of each kind. An acknowledgement
is a fixed number of bytes, written at once, so a process that is killed never leaves half a one.
"""

import os
import struct
import sys
import threading
from typing import Final

from lakebed.kv import PredicateFailed, Store, open_store

ACKNOWLEDGEMENT: Final = struct.Struct("<cBI")
PLAIN: Final = b"p"
CONDITIONAL: Final = b"c"
PARTITION: Final = b"crash"
TALLY: Final = b"tally"
SLOT: Final = struct.Struct("<I")


def plain_key(process: str, thread: int, number: int) -> bytes:
    return f"plain/{process}/{thread}/{number:08d}".encode()


def acknowledge(kind: bytes, thread: int, number: int) -> None:
    os.write(sys.stdout.fileno(), ACKNOWLEDGEMENT.pack(kind, thread, number))


def write_plainly(store: Store, process: str, thread: int) -> None:
    number = 0
    while True:
        store.set(PARTITION, plain_key(process, thread, number), b"%d" % number)
        acknowledge(PLAIN, thread, number)
        number += 1


def count_conditionally(store: Store, slot: int, thread: int) -> None:
    """Add one to this thread's own slot of a record that all threads of all processes write."""
    done = 0
    while True:
        entry = store.get(PARTITION, TALLY)
        tally = bytearray(entry.value)
        (count,) = SLOT.unpack_from(tally, slot * SLOT.size)
        SLOT.pack_into(tally, slot * SLOT.size, count + 1)
        try:
            store.set(PARTITION, TALLY, bytes(tally), entry.predicate)
        except PredicateFailed:
            continue
        acknowledge(CONDITIONAL, thread, done)
        done += 1


def main(url: str, process: str, first_slot: str, threads: str) -> None:
    store = open_store(url)
    for thread in range(int(threads)):
        for target, arguments in (
            (write_plainly, (store, process, thread)),
            (count_conditionally, (store, int(first_slot) + thread, thread)),
        ):
            threading.Thread(target=target, args=arguments).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
