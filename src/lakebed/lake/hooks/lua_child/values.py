"""Values on their way between Lua and Python."""

from collections.abc import Callable
from typing import Any, Final

import lupa.lua52

_DEPTH_MAX: Final = 50
_VALUE_BYTES: Final = 128
"""What a value takes beside its text, at most."""
_SPARE_BYTES: Final = 1 << 20
"""Kept free, for the small values of calls and errors."""


class CallFailed(Exception):
    """A function of a package was called wrongly or failed; scripts see the message."""


class Values:
    """Converts values. Texts of Lua are bytes; numbers that are whole are integers.

    Where a script itself takes too much memory, Lua raises an error. Where Python puts values in,
    Lua would stop the process without a word, so there the limit is looked at before.
    """

    def __init__(self, lua: Any, bytes_max: int) -> None:
        self._lua = lua
        self._bytes_max = bytes_max
        self.collect: Callable[[], Any]
        self.wrap: Callable[[Any], Any]
        self.new_array: Callable[[], Any]
        self.is_array: Callable[[Any], bool]

    def from_lua(self, value: Any, depth: int = 0) -> Any:
        """Return a value of Lua as Python's: a table is a list if it looks like one, else a dict.

        Raises:
            Refused: It is nested too deeply, or holds a function.
        """
        kind = lupa.lua52.lua_type(value)
        if kind is None:
            return value
        if kind != "table":
            raise CallFailed(f"a {kind} cannot be used here")
        if depth > _DEPTH_MAX:
            raise CallFailed("a table is nested too deeply, or holds itself")
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

    def to_lua(self, value: Any) -> Any:
        """Return a value of Python as Lua's.

        Raises:
            MemoryError: There is no room for it.
        """
        if isinstance(value, str):
            value = value.encode(errors="surrogateescape")
        self._check_room(len(value) if isinstance(value, bytes) else 0)
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
            return self.wrap(self.guard(value))
        return value

    def _check_room(self, size: int) -> None:
        limit = self._bytes_max - size - _VALUE_BYTES - _SPARE_BYTES
        if self._lua.get_memory_used() > limit:
            self.collect()
            if self._lua.get_memory_used() > limit:
                raise MemoryError

    def guard(self, function: Callable[..., object]) -> Callable[..., tuple[object, ...]]:
        """Make a function that Lua can call: it takes and gives values of Lua, and never raises.

        It returns true and the results, or false and a message.
        """

        def call(*arguments: Any) -> tuple[Any, ...]:
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


def text(value: Any, position: int = 1) -> bytes:
    """Return an argument that must be a text; a number is one.

    Raises:
        Refused: It is not.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.14g}".encode()
    raise CallFailed(f"bad argument #{position}: a string is expected")


def number(value: Any, position: int = 1) -> int | float:
    """Return an argument that must be a number.

    Raises:
        Refused: It is not.
    """
    if isinstance(value, bytes):
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise CallFailed(f"bad argument #{position}: a number is expected")


def readable(value: Any) -> Any:
    """Return a value with its bytes as texts, for JSON and YAML."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return [readable(each) for each in value]
    if isinstance(value, dict):
        return {key: readable(each) for key, each in value.items()}
    return value


def _key_text(key: object) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else f"{key:.14g}"
