"""Conversion of values between Lua and Python."""

from collections.abc import Callable
from typing import Any, Final

import lupa.lua52

_DEPTH_MAX: Final = 50
_VALUE_BYTES: Final = 128
"""Upper bound of a value's memory beyond its text."""
_SPARE_BYTES: Final = 1 << 20
"""Kept free for the small values of calls and errors."""


class CallFailed(Exception):
    """A wrong call or failure of a package's function; scripts see the message."""


class Values:
    """Converts values. Lua strings are bytes; whole numbers are integers.

    If a script allocates too much memory, Lua raises an error. If Python adds too many values, Lua
    would abort the process silently, so Python checks the limit first.
    """

    def __init__(self, lua: Any, bytes_max: int) -> None:
        self._lua = lua
        self._bytes_max = bytes_max
        self.collect: Callable[[], object]
        self.wrap: Callable[[object], object]
        self.new_array: Callable[[], Any]
        self.is_array: Callable[[object], bool]

    def from_lua(self, value: Any, depth: int = 0) -> Any:
        """Convert a Lua value: a table becomes a list if it is a sequence, otherwise a dict.

        Raises `CallFailed` if the value is nested too deeply, or contains a function.
        """
        kind = lupa.lua52.lua_type(value)
        if kind is None:
            return value
        if kind != "table":
            raise CallFailed(f"a {kind} cannot be used here")
        if depth > _DEPTH_MAX:
            raise CallFailed("a table is nested too deeply, or contains itself")
        items = {
            key: self.from_lua(each, depth + 1)
            for key, each in value.items()
            if isinstance(key, bytes | int | float)
        }
        length = len(items)
        is_sequence = length > 0 and all(index in items for index in range(1, length + 1))
        if is_sequence or self.is_array(value):
            return [items.get(index) for index in range(1, length + 1)]
        return {_key_text(key): each for key, each in items.items()}

    def to_lua(self, value: object) -> object:
        """Convert a Python value; raise `MemoryError` if it exceeds the script's memory."""
        if isinstance(value, str):
            value = value.encode(errors="surrogateescape")
        self._check_memory(len(value) if isinstance(value, bytes) else 0)
        if isinstance(value, dict):
            table = self._lua.table()
            for key, each in value.items():
                if each is not None:
                    table[self.to_lua(key)] = self.to_lua(each)
            return table
        if isinstance(value, list | tuple):
            array = self.new_array()
            for index, each in enumerate(value, 1):
                array[index] = self.to_lua(each)
            return array
        if callable(value):
            return self.wrap(self.protected(value))
        return value

    def _check_memory(self, size: int) -> None:
        limit = self._bytes_max - size - _VALUE_BYTES - _SPARE_BYTES
        if self._lua.get_memory_used() > limit:
            self.collect()
            if self._lua.get_memory_used() > limit:
                raise MemoryError

    def protected(self, function: Callable[..., object]) -> Callable[..., tuple[object, ...]]:
        """Wrap a function for Lua: converts arguments and results, and never raises.

        Returns true and the results, or false and a message.
        """

        def call(*arguments: object) -> tuple[object, ...]:
            try:
                results = function(*map(self.from_lua, arguments))
                given = results if isinstance(results, tuple) else (results,)
                return (True, *map(self.to_lua, given))
            except (lupa.lua52.LuaMemoryError, MemoryError):
                return False, b"not enough memory"
            except TypeError:
                return False, b"bad arguments: one is missing, or there are too many"
            except (CallFailed, ValueError, OverflowError, RecursionError) as error:
                return False, str(error).encode(errors="replace")

        return call


def text(value: object, position: int = 1) -> bytes:
    """Return a string argument, or a number as a string; raise `CallFailed` for other types."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.14g}".encode()
    raise CallFailed(f"bad argument #{position}: a string is expected")


def number(value: object, position: int = 1) -> int | float:
    """Return a number argument, or a numeric string as a number; raise `CallFailed` otherwise."""
    if isinstance(value, bytes):
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise CallFailed(f"bad argument #{position}: a number is expected")


def readable(value: object) -> Any:
    """Return a value with all bytes decoded to str, for JSON and YAML."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return [readable(each) for each in value]
    if isinstance(value, dict):
        return {key: readable(each) for key, each in value.items()}
    return value


def _key_text(key: object) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else f"{key:.14g}"
