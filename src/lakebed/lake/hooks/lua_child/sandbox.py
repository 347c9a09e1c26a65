"""The Lua interpreter, without any access outside of the process."""

from importlib.resources import files
from typing import Final

import lupa.lua52

from lakebed.lake.hooks.lua_child.messages import Pipe, Print, Start
from lakebed.lake.hooks.lua_child.packages import open_package
from lakebed.lake.hooks.lua_child.values import CallFailed, Values

_FAILURE_START: Final = "<HookFailure>"
_FAILURE_END: Final = "</HookFailure>"


def run_script(start: Start, pipe: Pipe) -> str | None:
    """Run a script; return its error, or None on success."""
    lua = lupa.lua52.LuaRuntime(
        encoding=None,  # Lua strings are bytes
        unpack_returned_tuples=True,
        register_eval=False,
        register_builtins=False,
        attribute_filter=_refuse_attribute,
        max_memory=start.memory_mib << 20,  # `Values` limits the values from Python
    )
    prepare = lua.compile(files(__package__).joinpath("sandbox.lua").read_bytes())
    values = Values(lua, start.memory_mib << 20)

    def open_by_name(name: bytes) -> object:
        try:
            functions = open_package(name.decode(errors="replace"), start, pipe)
        except CallFailed as error:
            return None, str(error).encode()
        table = lua.table()
        for each, function in functions.items():
            table[each.encode()] = values.guard(function)
        return table

    run, values.wrap, values.new_array, values.is_array, values.collect = prepare(
        lambda text: pipe.send(Print(text)), open_by_name
    )
    names = {"action": start.action, "args": start.args, "username": start.username}
    try:
        error = run(start.script, values.to_lua(names))
    except (lupa.lua52.LuaMemoryError, MemoryError):
        return "the script exceeds its memory limit (hooks.lua.memory_mib)"
    except lupa.lua52.LuaError as problem:
        error = str(problem).encode() or b"the script failed without a reason"
    return None if error is None else _unwrap_failure(error.decode(errors="replace"))


def _refuse_attribute(_thing: object, name: object, _is_setting: bool) -> object:
    raise AttributeError(name)


def _unwrap_failure(error: str) -> str:
    """Return the message of ``hook.fail`` without its position in the script."""
    _, found, rest = error.partition(_FAILURE_START)
    return rest.partition(_FAILURE_END)[0] if found else error
