"""Rows of lakeFS's tables: entries as columns, ranges of a metarange, refs and commits.

A row's value consists of an identity and a protobuf message, each with a length prefix in Go's
encoding of signed numbers. Damaged files and rows raise `DamagedTable`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError, Message

from lakebed.base.errors import quoted
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.errors import DamagedTable
from lakebed.clients.migrate.tables import Rows, Table, read_varint
from lakebed.clients.migrate.wire import Field, Numbers, Spans, decode, read_varints, spans_of
from lakebed.formats import ENTRY_SCHEMA, AddressType, Entry, entries_of

MessageT = TypeVar("MessageT", bound=Message)

_BATCH: Final = 10_000
_MTIME: Final = ENTRY_SCHEMA.field("mtime").type
_METADATA: Final = ENTRY_SCHEMA.field("metadata").type


@dataclass(frozen=True, slots=True)
class SourceRange:
    """A range of a lakeFS metarange."""

    id: str
    min_key: bytes
    max_key: bytes
    count: int


def read_ranges(data: bytes, name: str) -> list[SourceRange]:
    """Return the ranges of a metarange, sorted by key."""
    ranges = []
    for key, identity, message in _messages(data, name, pb.RangeData):
        min_key = message.min_key or key
        ranges.append(SourceRange(identity.decode(), min_key, key, message.count))
    return ranges


def read_messages(data: bytes, name: str, kind: type[MessageT]) -> Iterator[MessageT]:
    """Yield the messages of a table in a dump: branches, tags or commits."""
    for _, _, message in _messages(data, name, kind):
        yield message


def read_entries(data: bytes, name: str, namespace: str) -> Iterator[pa.Table]:
    """Yield the entries of a range in batches, with whole addresses below `namespace`."""
    try:
        for keys, values in _batches(Table(data, name)):
            identities, messages = _split(spans_of(values))
            yield _entries(keys, identities.to_arrow(pa.binary()), messages, _prefix(namespace))
    except (IndexError, pa.ArrowInvalid) as error:
        raise DamagedTable(name, f"unreadable row: {error}") from error


def read_entry(key: bytes, identity: bytes, message: bytes, namespace: str) -> Entry:
    """Decode the entry in a row of a database."""
    try:
        made = _entries([key], [identity], spans_of([message]), _prefix(namespace))
    except (IndexError, pa.ArrowInvalid) as error:
        raise DamagedTable(quoted(key), f"unreadable: {error}") from error
    return next(iter(entries_of(made)))


def _prefix(namespace: str) -> str:
    return namespace.rstrip("/") + "/"


def _batches(table: Table) -> Iterator[Rows]:
    """Yield rows in batches large enough for columnar processing."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for more_keys, more_values in table.rows():
        keys += more_keys
        values += more_values
        if len(keys) >= _BATCH:
            yield keys, values
            keys, values = [], []
    if keys:
        yield keys, values


def _entries(
    keys: list[bytes], identities: pa.Array | list[bytes], messages: Spans, prefix: str
) -> pa.Table:
    count, fields = len(keys), decode(messages)

    def texts(number: int) -> pa.Array:
        return fields[number].one_span_each(count).to_arrow(pa.string())

    times = decode(fields[pb.Entry.LAST_MODIFIED_FIELD_NUMBER].one_span_each(count))
    seconds, nanos = (times[number].one_number_each(count) for number in (1, 2))
    kinds = fields[pb.Entry.ADDRESS_TYPE_FIELD_NUMBER].one_number_each(count)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "identity": identities,
        "address": _whole(texts(pb.Entry.ADDRESS_FIELD_NUMBER), kinds, prefix),
        "address_type": pa.array(np.full(count, AddressType.FULL, np.int8)),
        "size": pa.array(fields[pb.Entry.SIZE_FIELD_NUMBER].one_number_each(count)),
        "checksum": texts(pb.Entry.E_TAG_FIELD_NUMBER),
        "mtime": pa.array(seconds * 1_000_000 + nanos // 1_000).cast(_MTIME),
        "content_type": texts(pb.Entry.CONTENT_TYPE_FIELD_NUMBER),
        "metadata": _metadata(fields[pb.Entry.METADATA_FIELD_NUMBER], count),
    }
    return pa.table(columns, schema=ENTRY_SCHEMA)


def _split(values: Spans) -> tuple[Spans, Spans]:
    lengths, begins = read_varints(values, values.begins)
    ends = begins + (lengths >> 1)
    if (ends >= values.ends).any():
        raise IndexError("an identity exceeds its value")
    lengths, messages = read_varints(values, ends)
    if (messages + (lengths >> 1) != values.ends).any():
        raise IndexError("the lengths of its parts do not match")
    return Spans(values.data, begins, ends), Spans(values.data, messages, values.ends)


def _whole(addresses: pa.Array, kinds: Numbers, prefix: str) -> pa.Array:
    """Return whole addresses; in old entries, the prefix tells the kind of the address.

    lakeFS percent-encodes the URLs of Azure, and no other addresses.
    """
    relative = pa.array(kinds == pb.RELATIVE)
    if (kinds == pb.BY_PREFIX).any():
        short = pc.invert(pc.match_substring(addresses, "://"))
        relative = pc.or_(relative, pc.and_(pa.array(kinds == pb.BY_PREFIX), short))
    is_url = pc.and_(pc.invert(relative), pc.starts_with(addresses, "https://"))
    is_url = pc.and_(is_url, pc.match_substring(addresses, "%"))
    if is_url.true_count:
        decoded = pa.array(map(_unquoted, addresses.filter(is_url).to_pylist()), pa.string())
        addresses = pc.replace_with_mask(addresses, is_url, decoded)
    return pc.binary_join_element_wise(pc.if_else(relative, prefix, ""), addresses, "")


def _unquoted(url: str) -> str:
    try:
        return unquote_to_bytes(url).decode()
    except UnicodeDecodeError:
        return url  # not the name of a blob


def _metadata(field: Field, count: int) -> pa.Array:
    """Return the metadata of entries, sorted by key."""
    if not len(field.rows):
        return pa.array([()] * count, _METADATA)
    pairs, many = decode(field.spans), len(field.rows)
    keys, texts = (pairs[number].one_span_each(many).to_arrow(pa.string()) for number in (1, 2))
    table = pa.table({"row": field.rows, "key": keys, "value": texts})
    table = table.sort_by([("row", "ascending"), ("key", "ascending")])
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(field.rows, minlength=count), out=bounds[1:])
    columns = (table[name].combine_chunks() for name in ("key", "value"))
    return pa.MapArray.from_arrays(pa.array(bounds), *columns, _METADATA)


def _messages(
    data: bytes, name: str, kind: type[MessageT]
) -> Iterator[tuple[bytes, bytes, MessageT]]:
    """Yield key, identity and message of each row."""
    try:
        for keys, values in Table(data, name).rows():
            for key, value in zip(keys, values, strict=True):
                identity, message = _parts(value)
                yield key, identity, kind.FromString(message)
    except (DecodeError, IndexError) as error:
        raise DamagedTable(name, f"unreadable row: {error}") from error


def _parts(value: bytes) -> tuple[bytes, bytes]:
    doubled, begin = read_varint(value, 0)
    end = begin + (doubled >> 1)
    doubled, begin_of_message = read_varint(value, end)
    if begin_of_message + (doubled >> 1) != len(value):
        raise IndexError("the lengths of its parts do not match")
    return value[begin:end], value[begin_of_message:]
