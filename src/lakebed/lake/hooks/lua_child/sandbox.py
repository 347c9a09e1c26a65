"""The Lua interpreter, without any access outside of the process, and the packages it can load."""

from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any, Final

import lupa.lua52

from lakebed.lake.hooks.lua_child.messages import Pipe, Print, Start
from lakebed.lake.hooks.lua_child.values import CallFailed, Values, text

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
            table[each.encode()] = values.protected(function)
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


Functions = dict[str, Callable[..., object]]

_SERVER: Final = "lakebed.lake.hooks.lua_child.library.server"
_LIBRARIES: Final = {
    "crypto/aes": "lakebed.lake.hooks.lua_child.library.aes:AES",
    "crypto/hmac": "lakebed.lake.hooks.lua_child.library.encoding:HMAC",
    "crypto/sha256": "lakebed.lake.hooks.lua_child.library.encoding:SHA256",
    "encoding/base64": "lakebed.lake.hooks.lua_child.library.encoding:BASE64",
    "encoding/hex": "lakebed.lake.hooks.lua_child.library.encoding:HEX",
    "encoding/json": "lakebed.lake.hooks.lua_child.library.documents:JSON",
    "encoding/parquet": "lakebed.lake.hooks.lua_child.library.documents:PARQUET",
    "encoding/yaml": "lakebed.lake.hooks.lua_child.library.documents:YAML",
    "encoding/z85enc": "lakebed.lake.hooks.lua_child.library.encoding:Z85",
    "net/url": "lakebed.lake.hooks.lua_child.library.urls:URL",
    "path": "lakebed.lake.hooks.lua_child.library.texts:PATH",
    "regexp": "lakebed.lake.hooks.lua_child.library.texts:REGEXP",
    "strings": "lakebed.lake.hooks.lua_child.library.texts:STRINGS",
    "time": "lakebed.lake.hooks.lua_child.library.clock:TIME",
    "uuid": "lakebed.lake.hooks.lua_child.library.encoding:UUID",
}
_NOT_HERE: Final = ("aws", "azure", "gcloud", "databricks", "formats", "lakefs/catalogexport")


def open_package(name: str, start: Start, pipe: Pipe) -> Functions:
    """Return a package's functions by name; raise `CallFailed` if it is missing or not allowed."""
    functions: Functions
    if name == "hook":
        functions = {"fail": _fail}
    elif name == "lakefs":
        functions = _load(f"{_SERVER}:new_lakefs")(pipe)
    elif name == "net/http":
        if not start.net_http_enabled:
            raise CallFailed(
                "package net/http is disabled: the server's operator can enable it by"
                " hooks.lua.net_http_enabled"
            )
        functions = _load(f"{_SERVER}:new_http")(pipe)
    elif name in _LIBRARIES:
        functions = _load(_LIBRARIES[name])
    elif name.startswith(_NOT_HERE):
        raise CallFailed(
            f"package {name} is not available: Lakebed's Lua has no cloud clients and no"
            " exporters; use a webhook or a command"
        )
    else:
        known = ", ".join(sorted([*_LIBRARIES, "hook", "lakefs", "net/http"]))
        raise CallFailed(f"unknown package {name}: use one of {known}")
    return functions


def _load(place: str) -> Any:
    # Imported on demand: most scripts use one or two.
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _fail(message: object) -> None:
    shown = text(message).decode(errors="replace")
    raise CallFailed(f"{_FAILURE_START}{shown}{_FAILURE_END}")
