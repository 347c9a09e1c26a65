"""Readable form of a store's records, damaged ones included.

The record kinds of all layers are collected from their ``keys.py``. A kind ``X`` whose module also
has ``X_NAME`` is a single record of that name.
"""

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lakebed.auth.entities import keys as auth_keys
from lakebed.auth.records_pb2 import Credential
from lakebed.base.errors import LakebedError, quoted
from lakebed.base.runtime import to_datetime
from lakebed.engine import keys as engine_keys
from lakebed.engine.records_pb2 import Emptied, ProposedEntry, StagedEntry
from lakebed.engine.staging.cells import PROPOSAL_PREFIX, parse_proposed
from lakebed.kv import CorruptRecord, Item, Store
from lakebed.kv.halt import HALT_KEY
from lakebed.kv.records import RecordKind
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY
from lakebed.lake import keys as catalog_keys
from lakebed.lake.hooks import keys as hooks_keys

_Kind = RecordKind[Any]

MASK: Final = "********"
_SECRETS: Final = frozenset({Credential.DESCRIPTOR.fields_by_name["secret"].full_name})
"""Fields whose values are never shown, not even encrypted."""

_MODULES: Final = (engine_keys, catalog_keys, hooks_keys)
_TEXTS: Final = (SCHEMA_KEY, engine_keys.INSTALLATION_KEY, b"usage/", HALT_KEY)
"""Metadata keys of the store with text values."""

_SYSTEM_PARTITIONS: Final[Mapping[bytes, Sequence[_Kind]]] = {
    engine_keys.GRAVELER: (engine_keys.REPOSITORIES, engine_keys.CLAIMS, engine_keys.CLOSED),
    engine_keys.DELETED_PARTITION: (engine_keys.DELETED,),
    engine_keys.DROPPED_PARTITION: (engine_keys.DROPPED,),
    METADATA_PARTITION: (engine_keys.LEASES,),
    catalog_keys.WAITING_PARTITION: (catalog_keys.WAITING,),
    catalog_keys.PURGES_PARTITION: (catalog_keys.PURGES,),
    hooks_keys.WAITING_PARTITION: (hooks_keys.WAITING,),
}
"""Partitions that belong to no repository, and their kinds of records."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selection of records."""

    partition: bytes | None = None
    prefix: bytes = b""
    """Prefix of the keys."""
    kind: str | None = None
    """Name of the message type, such as `Branch`."""


@dataclass(frozen=True, slots=True)
class ReadableRecord:
    """A record in readable form."""

    partition: bytes
    key: bytes
    kind: str
    """Name of the message type, ``text``, or ``unknown``."""
    value_bytes: int
    content: dict[str, object] | None
    """Fields of the message, or None if damaged or unknown."""
    damage: str | None = None
    """Why the record is unreadable."""
    unknown_fields: int = 0
    """Fields of a newer Lakebed, or a sign of damage."""

    def as_dict(self) -> dict[str, object]:
        """Convert to plain data."""
        shown: dict[str, object] = {
            "partition": as_text(self.partition),
            "key": as_text(self.key),
            "kind": self.kind,
            "bytes": self.value_bytes,
        }
        if self.damage is not None:
            shown["damaged"] = self.damage
        if self.unknown_fields:
            shown["unknown_fields"] = self.unknown_fields
        if self.content is not None:
            shown["record"] = self.content
        return shown


def shown_records(store: Store, wanted: Filter | None = None) -> Iterator[ReadableRecord]:
    """Iterate over the records of a store, partition by partition."""
    wanted = wanted or Filter()
    partitions = store.partitions() if wanted.partition is None else iter([wanted.partition])
    for partition in partitions:
        for item in store.scan(partition, wanted.prefix):
            if not item.key.startswith(wanted.prefix):
                break
            if wanted.kind in {None, kind_name(partition, item.key)}:
                yield show(partition, item)


class DamagedRecord(LakebedError):
    """A record does not match its key; the message does not quote the record."""

    kind = "damaged_record"


def show(partition: bytes, item: Item) -> ReadableRecord:
    """Decode a record for display."""
    name, size = kind_name(partition, item.key), len(item.value)
    try:
        message = decode(partition, item)
        if message is None:
            text: dict[str, object] = {"text": as_text(item.value)}
            return ReadableRecord(partition, item.key, name, size, text if name == "text" else None)
        unknown = len(UnknownFieldSet(message))
        return ReadableRecord(
            partition, item.key, name, size, plain(message), unknown_fields=unknown
        )
    except DamagedRecord as error:
        return ReadableRecord(partition, item.key, name, size, None, damage=str(error))


def decode(partition: bytes, item: Item) -> Message | None:
    """Decode the message under a key, or return None if the key is unknown."""
    message_type = message_of(partition, item.key)
    if message_type is None:
        return None
    message: Message
    try:
        if message_type is StagedEntry and item.value.startswith(PROPOSAL_PREFIX):
            message_type = ProposedEntry
            message = parse_proposed(item.key, item.value)
        else:
            message = message_type.FromString(item.value)
        plain(message)  # fails for times outside of the calendar
    except (CorruptRecord, DecodeError, UnicodeDecodeError, OverflowError, ValueError) as error:
        # Only the type of the error: its text may quote the value.
        name = message_type.DESCRIPTOR.name
        raise DamagedRecord(f"not a {name} ({type(error).__name__})") from error
    return message


def kind_name(partition: bytes, key: bytes) -> str:
    """Return the name of a key's message type, ``text``, or ``unknown``."""
    message_type = message_of(partition, key)
    if message_type is not None:
        return message_type.DESCRIPTOR.name
    is_text = partition == METADATA_PARTITION and key.startswith(_TEXTS)
    return "text" if is_text else "unknown"


def message_of(partition: bytes, key: bytes) -> type[Message] | None:
    """Return the message type of a key, or None if unknown."""
    has_own = partition == auth_keys.AUTH or partition in _SYSTEM_PARTITIONS
    exact, prefixes = _kinds_of(partition if has_own else b"")
    if key in exact:
        return exact[key]
    return next((found for prefix, found in prefixes if key.startswith(prefix)), None)


Kinds = tuple[dict[bytes, type[Message]], list[tuple[bytes, type[Message]]]]
"""Message types by whole key, and by key prefix, longest first."""


@cache
def _kinds_of(partition: bytes) -> Kinds:
    """Return the kinds of a partition with a fixed name, or of all other partitions (``b""``)."""
    if partition in _SYSTEM_PARTITIONS:
        return {}, [(kind.prefix, kind.message) for kind in _SYSTEM_PARTITIONS[partition]]
    if partition == auth_keys.AUTH:
        return _sorted(_named_kinds(auth_keys))
    taken = {id(kind) for kinds in _SYSTEM_PARTITIONS.values() for kind in kinds}
    exact, prefixes = _sorted(
        (name, kind)
        for module in _MODULES
        for name, kind in _named_kinds(module)
        if id(kind) not in taken
    )
    exact[engine_keys.EMPTIED] = Emptied
    prefixes.append((engine_keys.STAGED_PREFIX, StagedEntry))
    return exact, prefixes


def _named_kinds(module: ModuleType) -> Iterator[tuple[bytes, _Kind]]:
    """Yield the kinds of a module, each with its record name or ``b""``."""
    for name, kind in vars(module).items():
        if isinstance(kind, RecordKind):
            yield getattr(module, f"{name}_NAME", b""), kind


def _sorted(kinds: Iterator[tuple[bytes, _Kind]]) -> Kinds:
    exact: dict[bytes, type[Message]] = {}
    prefixes: list[tuple[bytes, type[Message]]] = []
    for name, kind in kinds:
        if name:
            exact[kind.prefix + name] = kind.message
        else:
            prefixes.append((kind.prefix, kind.message))
    return exact, sorted(prefixes, key=lambda each: len(each[0]), reverse=True)


def plain(message: Message) -> dict[str, object]:
    """Convert a message to plain data: times as text, secrets masked."""
    return {field.name: _plain_field(field, value) for field, value in message.ListFields()}


def _plain_field(field: FieldDescriptor, value: Any) -> object:
    if field.full_name in _SECRETS:
        return MASK
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    if isinstance(value, MutableSequence):
        return [_plain_value(field, each) for each in value]
    return _plain_value(field, value)


def _plain_value(field: FieldDescriptor, value: Any) -> object:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, bytes):
        return as_text(value) if value.isascii() else value.hex()
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.name.endswith("_us"):
        return to_datetime(value).isoformat()
    return value


def as_text(data: bytes) -> str:
    """Return bytes as text, with escapes where they are not printable."""
    return quoted(data)[1:-1]
