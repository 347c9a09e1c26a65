"""``strings``, ``path`` and ``regexp``."""

import posixpath
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import re2

from lakebed.lake.hooks.lua_child.values import CallFailed, number, readable, text


def _split(whole: object, separator: object) -> list[bytes]:
    between = text(separator, 2)
    if between:
        return text(whole).split(between)
    return [each.encode() for each in text(whole).decode(errors="replace")]


def _replace(whole: object, old: object, new: object, count: object = -1) -> bytes:
    return text(whole).replace(text(old, 2), text(new, 3), int(number(count, 4)))


def _parse_path(path: object, separator: object = b"/") -> dict[str, bytes]:
    parent, name = _parent_and_name(text(path), text(separator, 2))
    return {"parent": parent, "base_name": name}


def _parent_and_name(path: bytes, separator: bytes) -> tuple[bytes, bytes]:
    parent, found, name = path.removesuffix(separator).rpartition(separator)
    return parent + found, name


def _join_path(separator: object, *parts: object) -> bytes:
    between = text(separator)
    texts = [text(part, position) for position, part in enumerate(parts, 2)]
    trimmed = texts[:1] + [each.removeprefix(between) for each in texts[1:]]
    return b"".join(
        each if each.endswith(between) else each + between for each in trimmed[:-1]
    ) + b"".join(trimmed[-1:])


def _is_hidden(path: object, separator: object = b"/", prefix: object = b"_") -> bool:
    rest, between, beginning = text(path), text(separator, 2), text(prefix, 3)
    while rest:
        shorter, name = _parent_and_name(rest, between)
        if name.startswith(beginning):
            return True
        if len(shorter) >= len(rest):
            return False
        rest = shorter
    return False


def _directory(path: object) -> bytes:
    return posixpath.normpath(posixpath.dirname(text(path)) or b".")


def _compiled(pattern: object) -> Any:
    try:
        return re2.compile(text(pattern))
    except re2.error as error:
        reason = readable(error.args[0])
        raise CallFailed(f"invalid regular expression: {reason}") from error


def _compile(pattern: object) -> dict[str, Callable[..., object]]:
    compiled = _compiled(pattern)

    def find(whole: object) -> bytes:
        return next((found[0] for found in _found(compiled, text(whole))), b"")

    def find_all(whole: object, count: object = -1) -> list[bytes]:
        return [found[0] for found in _found(compiled, text(whole), count)]

    def find_submatch(whole: object) -> list[bytes]:
        return next(map(_groups, _found(compiled, text(whole))), [])

    def find_all_submatch(whole: object, count: object = -1) -> list[list[bytes]]:
        return [_groups(found) for found in _found(compiled, text(whole), count)]

    return {
        "find": find,
        "find_all": find_all,
        "find_submatch": find_submatch,
        "find_all_submatch": find_all_submatch,
    }


def _found(compiled: Any, whole: bytes, count: object = -1) -> Iterator[Any]:
    most = int(number(count, 2))
    return islice(_matches(compiled, whole), most if most >= 0 else None)


def _matches(compiled: Any, whole: bytes) -> Iterator[Any]:
    """Yield the matches that Go finds: no empty one after another match or inside a character."""
    end = -1
    for found in compiled.finditer(whole):
        start, previous, end = found.start(), end, found.end()
        is_inside = b"\x80" <= whole[start : start + 1] < b"\xc0"  # of a character in UTF-8
        if start < end or not (start == previous or is_inside):
            yield found


def _groups(found: Any) -> list[bytes]:
    return [found[0], *found.groups(default=b"")]


STRINGS: Final = {
    "split": _split,
    "trim": lambda whole: text(whole).strip(),
    "replace": _replace,
    "has_prefix": lambda whole, prefix: text(whole).startswith(text(prefix, 2)),
    "has_suffix": lambda whole, suffix: text(whole).endswith(text(suffix, 2)),
    "contains": lambda whole, part: text(part, 2) in text(whole),
}
PATH: Final = {
    "parse": _parse_path,
    "join": _join_path,
    "is_hidden": _is_hidden,
    "default_separator": lambda: b"/",
    "extract_dir_name": _directory,
}
REGEXP: Final = {
    "match": lambda pattern, whole: _compiled(pattern).search(text(whole, 2)) is not None,
    "quote_meta": lambda whole: re2.sub(rb"[\\.+*?()|\[\]{}^$]", rb"\\\g<0>", text(whole)),
    "compile": _compile,
}
