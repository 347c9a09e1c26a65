"""Texts about values of the wrong type: the field, the expectation and the value."""

import re
import types
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

_EXPECTED: Final[Mapping[object, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    bytes: "a text in Base64",
    datetime: "a date like 2026-11-19T12:00:00Z",
    Path: "a path",
    tuple[str, ...]: "a list of texts",
    list[str]: "a list of texts",
    dict[str, str]: "a mapping of names to texts",
    dict[str, tuple[str, ...]]: "a mapping of names to lists of texts",
}
_BOUNDS: Final = (
    ("ge", "at least {}"),
    ("le", "at most {}"),
    ("min_length", "at least {} characters"),
    ("max_length", "at most {} characters"),
    ("pattern", "matching {}"),
)

_PLACE: Final = re.compile(r" - at `(?:key in )?\$(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+|\.\.\.)\]")
_MISSING: Final = re.compile("missing required field `(.+?)`")
_SECRET: Final = re.compile("secret|password|token|account_key", re.IGNORECASE)
_SHOWN_CHARACTERS: Final = 100


def expected(kind: Any) -> str:
    """Return what values of a type are, in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        metas = [each for each in arguments[1:] if isinstance(each, msgspec.Meta)]
        bounds = [
            text.format(value)
            for meta in metas
            for name, text in _BOUNDS
            if (value := getattr(meta, name)) is not None
        ]
        return ", ".join([expected(arguments[0]), *filter(None, [" and ".join(bounds)])])
    if origin is Literal:
        names = ", ".join(map(str, arguments))
        return f"one of {names}" if len(arguments) > 1 else names
    if origin in {Union, types.UnionType}:
        return " or ".join(expected(each) for each in arguments if each is not types.NoneType)
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    return "a list" if origin in {list, tuple} else "an object"


def explain(error: msgspec.ValidationError, kind: Any, data: Any) -> str:
    """Return what is wrong with data that is not of a type, without values of secrets.

    `data` is the value as decoded without the type.
    """
    place = _PLACE.search(str(error))
    path = "" if place is None else place[1]
    for step in _STEP.finditer(path):
        kind, data = _inside(kind, data, step)
    name = path.removeprefix(".").replace("[...]", "")
    if missing := _MISSING.search(str(error)):
        return f"{f'{name}.{missing[1]}'.removeprefix('.')} is missing"
    wanted, found = expected(kind), _shown(data)
    prefix = f"{name}: " if name else ""
    if wanted == found:  # a wrong key or length
        reason = str(error).partition(" - at ")[0]
        return f"{prefix}{reason[:1].lower()}{reason[1:]}"
    return f"{prefix}expected {wanted}{'' if _SECRET.search(name) else f', not {found}'}"


def explain_json(
    error: msgspec.DecodeError | UnicodeDecodeError, kind: Any, text: bytes | str
) -> str:
    """Return what is wrong with JSON that could not be decoded to a type; see `explain`."""
    try:
        if isinstance(error, msgspec.ValidationError):
            return explain(error, kind, msgspec.json.decode(text))
    except RecursionError:
        return "lists and objects are nested too deeply"
    except msgspec.ValidationError:
        return "a number is out of range"
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        error = malformed
    return f"not JSON ({error})"


def _inside(kind: Any, data: Any, step: re.Match[str]) -> tuple[Any, Any]:
    """Return the type and the value of a field or an item."""
    field, index = step.groups()
    for each in (kind, *get_args(kind)):
        origin = get_origin(each) or each
        if field and isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            found = {one.encode_name: one.type for one in msgspec.structs.fields(each)}
            return found.get(field, Any), data.get(field)
        if index == "..." and origin is dict:
            kind = get_args(each)[1]
            return kind, next((value for value in data.values() if not _is(kind, value)), None)
        if index and origin in {list, tuple}:
            return get_args(each)[0], data[int(index)]
    return Any, data


def _is(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):  # may contain secrets
        return "a list" if isinstance(value, list) else "an object"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
