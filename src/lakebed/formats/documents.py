"""Small JSON files with a type and a digest of their content.

The digest detects damage, not malice: a writer to the storage can compute a valid digest for any
content. So the fields of a document are validated, too.
"""

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, NewType, TypeVar, get_args, get_origin, get_type_hints

from lakebed.formats.errors import DamagedFile, ForeignFile
from lakebed.formats.parquet import FORMAT_VERSION, refuse_newer

RecordT = TypeVar("RecordT")


def encode_document(type_name: str, content: dict[str, object]) -> bytes:
    """Return the file of a document."""
    content = {"type": type_name, "format": FORMAT_VERSION, **content}
    return json.dumps(content | {"digest": _digest(content)}, indent=1).encode()


def decode_document(data: bytes, type_name: str, *, file: str) -> dict[str, object]:
    """Return the content of a document after verifying its digest."""
    content = load_json(data, file=file)
    if not isinstance(content, dict) or content.get("type") != type_name:
        raise ForeignFile(file, f"is not a {type_name}")
    version = content.get("format")
    if isinstance(version, int):
        refuse_newer(version, file)
    digest = content.pop("digest", None)
    if digest != _digest(content):
        raise DamagedFile(file, "digest mismatch")
    return {name: content[name] for name in content if name not in {"type", "format"}}


def load_json(data: bytes, *, file: str) -> Any:
    """Parse a JSON file; raise `DamagedFile` if it is not JSON, or is nested too deep."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(file, error) from error


def read_record(of: type[RecordT], content: object, *, file: str) -> RecordT:
    """Return a dataclass with the fields of a document that it knows, or raise `DamagedFile`."""
    try:
        record: RecordT = _convert(content, of, of.__name__)
    except _WrongField as error:
        raise DamagedFile(file, error) from None
    return record


class _WrongField(ValueError):
    """A field is missing, or has the wrong type."""


def _convert(value: object, wanted: Any, name: str) -> Any:
    """Convert a JSON value to the wanted type."""
    if isinstance(wanted, NewType):
        return _convert(value, wanted.__supertype__, name)
    if isinstance(wanted, UnionType):
        inner, _ = get_args(wanted)  # the type besides None
        return None if value is None else _convert(value, inner, name)
    kind = get_origin(wanted) or wanted
    if kind is tuple:
        inner, _ = get_args(wanted)  # item type and ellipsis
        return tuple(_convert(each, inner, name) for each in _checked(value, list, name))
    if is_dataclass(kind):
        return _convert_fields(_checked(value, dict, name), kind)
    if issubclass(kind, Enum):
        if value not in [each.value for each in kind]:
            raise _WrongField(f"unknown {name} {value!r}")
        return kind(value)
    return _checked(value, kind, name)


def _convert_fields(content: dict[str, Any], wanted: Any) -> Any:
    types = get_type_hints(wanted)
    found = {}
    for each in fields(wanted):
        if each.name in content:
            found[each.name] = _convert(content[each.name], types[each.name], each.name)
        elif each.default is MISSING:
            raise _WrongField(f"field '{each.name}' is missing")
    return wanted(**found)


def _checked(value: object, wanted: type[RecordT], name: str) -> RecordT:
    if type(value) is not wanted:
        found = type(value).__name__
        raise _WrongField(f"field {name} has type {found}, not {wanted.__name__}")
    return value


def _digest(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
