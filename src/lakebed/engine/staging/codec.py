"""A staged value: an entry or a tombstone, as the bytes that the store keeps."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from lakebed.base.errors import quoted
from lakebed.base.times import from_datetime, to_datetime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.formats import AddressType, Entry
from lakebed.kv import CorruptRecord, Item, Pair

TOMBSTONE: Final = pb.StagedEntry().SerializeToString()
"""Stages the removal of a key: a value without an identity."""

# Many entries are decoded at a time, and calling the type would take as long as parsing them.
_ADDRESS_TYPES: Final = {int(each): each for each in AddressType}


def encode(entry: Entry, *, replaced_address: str = "") -> bytes:
    """Return the value that stages an entry, perhaps over one with another address."""
    return pb.StagedEntry(
        identity=entry.identity,
        entry=pb.Entry(
            address=entry.address,
            address_type=pb.AddressType.Name(entry.address_type),
            size=entry.size,
            checksum=entry.checksum,
            modified_us=from_datetime(entry.mtime),
            content_type=entry.content_type,
            metadata=entry.metadata,
        ),
        replaced_address=replaced_address,
    ).SerializeToString()


def decode(key: bytes, value: bytes) -> Entry | None:
    """Return the entry that a value stages; None for a tombstone.

    Raises:
        CorruptRecord: It is not a staged value.
    """
    staged = parse(key, value)
    if not staged.identity:
        return None
    entry = staged.entry
    return Entry(
        key=key,
        identity=staged.identity,
        address=entry.address,
        address_type=_ADDRESS_TYPES[entry.address_type],
        size=entry.size,
        checksum=entry.checksum,
        mtime=to_datetime(entry.modified_us),
        content_type=entry.content_type,
        metadata=dict(entry.metadata) if entry.metadata else {},
    )


def path_of(name: bytes) -> bytes:
    """Return the path of the object that a key of a staging token is about."""
    return name[len(STAGED_PREFIX) :]


def parse_all(staged: Sequence[Item | Pair]) -> list[pb.StagedEntry]:
    """Return the values of what is staged as messages.

    Raises:
        CorruptRecord: One of them is not a staged value.
    """
    try:
        return [pb.StagedEntry.FromString(each[1]) for each in staged]
    except DecodeError:
        return [parse(each[0], each[1]) for each in staged]  # says which one it is


def parse(key: bytes, value: bytes) -> pb.StagedEntry:
    """Return a staged value as a message.

    Raises:
        CorruptRecord: It is not one.
    """
    try:
        return pb.StagedEntry.FromString(value)
    except DecodeError as error:
        raise CorruptRecord(f"the staged value of {quoted(key)} cannot be read: {error}") from error
