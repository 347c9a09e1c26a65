"""Rows of lakeFS's tables: entries as columns, ranges of a metarange, refs and commits.

A row's value consists of an identity and a protobuf message, each with a length prefix in Go's
encoding of signed numbers. Damaged files and rows raise `DamagedTable`.

Messages are decoded in one pass for each field: creating an object for each row takes ten times as
long. Each message has a cursor, and NumPy advances all cursors together.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError, Message

from lakebed.base.errors import quoted
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.errors import DamagedTable
from lakebed.clients.migrate.tables import Rows, Table, read_varint
from lakebed.formats import ENTRY_SCHEMA, AddressType, Entry, entries_of

Numbers = npt.NDArray[np.int64]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10
_MORE: Final = 0x80
_NOTHING: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Spans:
    """Slices of a buffer."""

    data: npt.NDArray[np.uint8]
    begins: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.begins)

    def to_arrow(self, kind: pa.DataType) -> pa.Array:
        """Convert the slices to an array of strings or bytes."""
        lengths = self.ends - self.begins
        bounds = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        places = np.arange(bounds[-1]) + np.repeat(self.begins - bounds[:-1], lengths)
        buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(self.data[places])]
        array = pa.Array.from_buffers(kind, len(lengths), buffers)
        array.validate(full=True)  # checks UTF-8
        return array


@dataclass(frozen=True, slots=True)
class Field:
    """The values of one field in many messages."""

    rows: Numbers
    """Index of the message of each value."""
    spans: Spans
    """Values of type string, bytes or message."""
    numbers: Numbers
    """Values of numeric type."""

    def one_span_each(self, count: int) -> Spans:
        """Return a slice for each of `count` messages, empty where the field is missing."""
        begins, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
        begins[self.rows], ends[self.rows] = self.spans.begins, self.spans.ends
        return Spans(self.spans.data, begins, ends)

    def one_number_each(self, count: int) -> Numbers:
        """Return a number for each of `count` messages, 0 where the field is missing."""
        numbers = np.zeros(count, np.int64)
        numbers[self.rows] = self.numbers
        return numbers


def spans_of(values: list[bytes]) -> Spans:
    """Concatenate values."""
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=bounds[1:])
    return Spans(np.frombuffer(b"".join(values), np.uint8), bounds[:-1], bounds[1:])


def read_varints(spans: Spans, at: Numbers) -> tuple[Numbers, Numbers]:
    """Read a number at each position; return the numbers and the positions after."""
    values = np.zeros(len(at), np.int64)
    at = at.copy()
    going = np.arange(len(at))
    for group in range(_VARINT_BYTES_MAX):
        bytes_here = spans.data[at[going]].astype(np.int64)
        values[going] |= (bytes_here & (_MORE - 1)) << (7 * group)
        at[going] += 1
        going = going[bytes_here >= _MORE]
        if not len(going):
            break
    else:
        raise IndexError("a varint is too long")
    if (at > spans.ends).any():
        raise IndexError("a varint exceeds its message")
    return values, at


def decode(spans: Spans) -> defaultdict[int, Field]:
    """Return the fields of messages by number; a missing field is empty."""
    met: dict[int, list[tuple[Numbers, Numbers, Numbers]]] = {}
    rows = np.flatnonzero(spans.begins < spans.ends)
    at = spans.begins[rows]
    while len(rows):
        here = Spans(spans.data, at, spans.ends[rows])
        tags, at = read_varints(here, at)
        begins, numbers, at = _values(here, tags & 7, at)
        fields = tags >> 3
        for field in np.unique(fields).tolist():
            mine = fields == field
            whats = numbers if (tags[mine][0] & 7) == _VARINT else at
            met.setdefault(field, []).append((rows[mine], begins[mine], whats[mine]))
        going = at < here.ends
        rows, at = rows[going], at[going]
    empty = Field(_NOTHING, Spans(spans.data, _NOTHING, _NOTHING), _NOTHING)
    found = {field: _field(spans, parts) for field, parts in met.items()}
    return defaultdict(lambda: empty, found)


def _values(here: Spans, kinds: Numbers, at: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the starts of values, the numeric values, and the ends of values."""
    if not np.isin(kinds, (_VARINT, _FIXED64, _BYTES, _FIXED32)).all():
        raise IndexError("a field has an unknown wire type")
    numbers, after = np.zeros(len(at), np.int64), at.copy()
    has_number = (kinds == _VARINT) | (kinds == _BYTES)
    of_number = Spans(here.data, at[has_number], here.ends[has_number])
    numbers[has_number], after[has_number] = read_varints(of_number, at[has_number])
    ends = after + np.select(
        [kinds == _BYTES, kinds == _FIXED64, kinds == _FIXED32], [numbers, 8, 4], 0
    )
    if (ends > here.ends).any() or (ends < after).any():
        raise IndexError("a field exceeds its message")
    return after, numbers, ends


def _field(spans: Spans, parts: list[tuple[Numbers, Numbers, Numbers]]) -> Field:
    rows, begins, whats = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Field(rows, Spans(spans.data, begins, whats), whats)


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
