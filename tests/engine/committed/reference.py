"""Committed metadata in plain Python: dicts of entries, and everything by walking over all keys."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from lakebed.engine.committed import ChangeCounts, ChangeType, Strategy
from lakebed.formats import Entry

Entries = dict[bytes, Entry]
Changes = Mapping[bytes, Entry | None]
"""New entries by key; None removes a key."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def apply(base: Entries, changes: Changes) -> tuple[Entries, ChangeCounts]:
    result, added, changed, removed = dict(base), 0, 0, 0
    for key, entry in changes.items():
        old = base.get(key)
        if entry is None:
            removed += result.pop(key, None) is not None
        elif old is None or old.identity != entry.identity:
            result[key] = entry
            added += old is None
            changed += old is not None
    return result, ChangeCounts(added, changed, removed)


def diff(left: Entries, right: Entries) -> list[tuple[ChangeType, Entry]]:
    found = []
    for key in sorted(left.keys() | right.keys()):
        change = change_of(left.get(key), right.get(key))
        if change is not None:
            found.append((change, left[key] if change is ChangeType.REMOVED else right[key]))
    return found


def change_of(old: Entry | None, new: Entry | None) -> ChangeType | None:
    if identity(old) == identity(new):
        return None
    if old is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if new is None else ChangeType.CHANGED


@dataclass(frozen=True, slots=True)
class Merged:
    entries: Entries
    conflicts: list[tuple[bytes, ChangeType | None, ChangeType | None]]


def merge(
    base: Entries, source: Entries, destination: Entries, strategy: Strategy | None
) -> Merged:
    result, conflicts = {}, []
    for key in sorted(base.keys() | source.keys() | destination.keys()):
        old, theirs, ours = base.get(key), source.get(key), destination.get(key)
        taken = ours
        if identity(theirs) not in {identity(old), identity(ours)}:
            if identity(ours) == identity(old):
                taken = theirs
            else:
                conflicts.append((key, change_of(old, theirs), change_of(old, ours)))
                taken = theirs if strategy is Strategy.SOURCE_WINS else ours
        if taken is not None:
            result[key] = taken
    return Merged(result, conflicts)


def fold(
    keys: list[bytes], prefix: bytes, after: bytes, delimiter: bytes
) -> list[tuple[str, bytes]]:
    """Return all items of a listing, as ("entry", key) or ("prefix", common prefix)."""
    items: list[tuple[str, bytes]] = []
    for key in sorted(keys):
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, b"", b"")
        item = ("prefix", prefix + head + delimiter) if found else ("entry", key)
        if item[1] > after and (not items or items[-1] != item):
            items.append(item)
    return items


def identity(entry: Entry | None) -> bytes | None:
    return None if entry is None else entry.identity


def range_id(entries: Entries) -> str:
    """Return the id of a range, computed as documented."""
    ordered = [entries[key] for key in sorted(entries)]
    columns: dict[str, bytes] = {
        "key": _texts([entry.key for entry in ordered]),
        "identity": _texts([entry.identity for entry in ordered]),
        "address": _texts([entry.address.encode() for entry in ordered]),
        "address_type": _numbers("b", [entry.address_type for entry in ordered]),
        "size": _numbers("q", [entry.size for entry in ordered]),
        "checksum": _texts([entry.checksum.encode() for entry in ordered]),
        "mtime": _numbers("q", [(entry.mtime - EPOCH) // MICROSECOND for entry in ordered]),
        "content_type": _texts([entry.content_type.encode() for entry in ordered]),
        "metadata": _maps([sorted(entry.metadata.items()) for entry in ordered]),
    }
    total = _framed(b"range") + struct.pack("<q", len(ordered))
    for name, data in columns.items():
        total += _framed(name.encode()) + sha256(data).digest()
    return sha256(total).hexdigest()


def _framed(text: bytes) -> bytes:
    return struct.pack("<q", len(text)) + text


def _numbers(code: str, numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}{code}", *numbers)


def _texts(texts: list[bytes]) -> bytes:
    return _numbers("i", [len(text) for text in texts]) + b"".join(texts)


def _maps(maps: list[list[tuple[str, str]]]) -> bytes:
    items = [item for each in maps for item in each]
    keys = _texts([key.encode() for key, _ in items])
    values = _texts([value.encode() for _, value in items])
    lengths = _numbers("i", [len(each) for each in maps])
    return lengths + sha256(keys).digest() + sha256(values).digest()
