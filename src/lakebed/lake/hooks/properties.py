"""Properties of each kind of hook, validated when the action file is read."""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

HookType = Literal["webhook", "airflow", "lua", "command"]
TYPES: Final[tuple[HookType, ...]] = get_args(HookType)

TIMEOUT_SECONDS: Final = 60.0
"""Default timeout of a hook."""
SCRIPT_BYTES_MAX: Final = 256 << 10

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_OWN_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "x-lakebed-run-id"}
)
"""Headers required by HTTP itself, or that would change message framing."""
_PORT_MAX: Final = 65535


class InvalidProperties(ValueError):
    """Invalid properties of a hook; the message names the property and the reason."""


def check_properties(hook_type: HookType, given: Mapping[str, object]) -> dict[str, object]:
    """Return the properties of a hook without ``timeout``.

    Raises `InvalidProperties` if a property is missing, unknown or invalid.
    """
    checks = _CHECKS[hook_type]
    for name in given:
        if name not in checks and name != "timeout":
            known = ", ".join([*checks, "timeout"])
            raise InvalidProperties(f"unknown property {name!r}: {hook_type} has {known}")
    found = {
        name: checks[name](name, given[name]) for name in checks if given.get(name) is not None
    }
    _REQUIRED[hook_type](found)
    return found


def read_timeout(given: Mapping[str, object]) -> float:
    """Return ``timeout`` in seconds; raise `InvalidProperties` if not a positive duration."""
    text = given.get("timeout")
    if text is None or text == "":
        return TIMEOUT_SECONDS
    if not isinstance(text, str):
        raise InvalidProperties(f"timeout must be a string like 30s or 5m, not {text!r}")
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InvalidProperties(f"timeout: {error}") from error
    if seconds <= 0:
        raise InvalidProperties(f"timeout must be positive, not {text}")
    return seconds


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidProperties(f"{name} must be a string, not {value!r}")
    if not value:
        raise InvalidProperties(f"{name} is empty")
    return value


def _script(name: str, value: object) -> str:
    script = _text(name, value)
    if len(script.encode()) > SCRIPT_BYTES_MAX:
        raise InvalidProperties(f"{name} has more than {SCRIPT_BYTES_MAX} bytes")
    return script


def _url(name: str, value: object) -> str:
    url = _text(name, value)
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname)
        is_url = is_url and (parts.port is None or 0 < parts.port <= _PORT_MAX)
    except ValueError:
        is_url = False
    if not is_url or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidProperties(f"{name} must be a URL like https://host/path, not {url!r}")
    if "@" in parts.netloc:
        raise InvalidProperties(f"{name} must not contain a password: send it in a header")
    return url


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidProperties(f"{name} must be true or false, not {value!r}")
    return value


def _mapping(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidProperties(f"{name} must be a mapping, not {value!r}")
    return value


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidProperties(f"{name} must be a list of strings: put numbers in quotes")
    return value


def _query(name: str, value: object) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for key, each in _mapping(name, value).items():
        query[key] = _texts(f"{name}.{key}", each if isinstance(each, list) else [each])
    return query


def _headers(name: str, value: object) -> dict[str, object]:
    headers = _mapping(name, value)
    for header, text in headers.items():
        if not _HEADER.fullmatch(header) or header.lower() in _OWN_HEADERS:
            raise InvalidProperties(f"{name}: a hook cannot send the header {header!r}")
        if not isinstance(text, str):
            raise InvalidProperties(f"{name}.{header} must be a string: put numbers in quotes")
    return headers


def _api_version(name: str, value: object) -> str:
    if value not in {"v1", "v2"}:
        raise InvalidProperties(f"{name} must be v1 (Airflow 2) or v2 (Airflow 3), not {value!r}")
    return str(value)


def _require(*names: str) -> Callable[[Mapping[str, object]], None]:
    def check(found: Mapping[str, object]) -> None:
        for name in names:
            if name not in found:
                raise InvalidProperties(f"the property {name} is missing")

    return check


def _require_airflow(found: Mapping[str, object]) -> None:
    if "token" in found and found.get("api_version") != "v2":
        raise InvalidProperties("token needs api_version: v2; v1 takes username and password")
    if "token" in found and ("username" in found or "password" in found):
        raise InvalidProperties("give token, or username and password, not both")
    _require("url", "dag_id")(found)
    if "token" not in found:
        _require("username", "password")(found)


def _require_lua(found: Mapping[str, object]) -> None:
    if ("script" in found) == ("script_path" in found):
        raise InvalidProperties("give one of script and script_path")


_CHECKS: Final[dict[HookType, dict[str, Callable[[str, object], object]]]] = {
    "webhook": {"url": _url, "query_params": _query, "headers": _headers},
    "airflow": {
        "url": _url,
        "dag_id": _text,
        "username": _text,
        "password": _text,
        "dag_conf": _mapping,
        "wait_for_dag": _boolean,
        "api_version": _api_version,
        "token": _text,
    },
    "lua": {"script": _script, "script_path": _text, "args": _mapping},
    "command": {"command": _text, "args": _texts},
}
_REQUIRED: Final[dict[HookType, Callable[[Mapping[str, object]], None]]] = {
    "webhook": _require("url"),
    "airflow": _require_airflow,
    "lua": _require_lua,
    "command": _require("command"),
}


_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_NUMBER: Final = r"(?:[0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})"
_PART: Final = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"([-+]?)((?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h)){{1,8}}|0)")


def parse_duration(text: str) -> float:
    """Return a duration in Go's syntax (``1m30s``, ``1.5h``) in seconds, or raise `ValueError`."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 5m or 1m30s")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(whole[2]))
    return -seconds if whole[1] == "-" else seconds
