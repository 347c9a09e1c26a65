"""Packages that scripts can load with ``require``."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from lakebed.lake.hooks.lua_child.messages import Pipe, Start
from lakebed.lake.hooks.lua_child.values import CallFailed, text

Functions = dict[str, Callable[..., object]]

_SERVER: Final = "lakebed.lake.hooks.lua_child.library.server"
_LIBRARIES: Final = {
    "crypto/hmac": "lakebed.lake.hooks.lua_child.library.encoding:HMAC",
    "crypto/sha256": "lakebed.lake.hooks.lua_child.library.encoding:SHA256",
    "encoding/base64": "lakebed.lake.hooks.lua_child.library.encoding:BASE64",
    "encoding/hex": "lakebed.lake.hooks.lua_child.library.encoding:HEX",
    "encoding/json": "lakebed.lake.hooks.lua_child.library.documents:JSON",
    "encoding/parquet": "lakebed.lake.hooks.lua_child.library.documents:PARQUET",
    "encoding/yaml": "lakebed.lake.hooks.lua_child.library.documents:YAML",
    "net/url": "lakebed.lake.hooks.lua_child.library.texts:URL",
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
    raise CallFailed(f"<HookFailure>{shown}</HookFailure>")
