"""JSON bodies and queries of the REST API, and the YAML of settings."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from lakebed.clients.cli.commands.auth import _read_statements
from lakebed.clients.cli.errors import CommandError
from lakebed.clients.http import errors as client_errors
from lakebed.clients.http.settings import load_settings
from lakebed.server import config_files
from lakebed.server.api.dispatch import _decode, _list_fields, _read_query, permissions
from lakebed.server.api.operations import ROUTES
from lakebed.server.http.errors import BadRequest
from lakebed.server.settings import ServerSettings, SettingsError
from tests.fuzz.inputs import any_text, damaged, json_values, texts
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

BY_NAME: Final = {route.operation: route for route in ROUTES}
WITH_BODY: Final = [route for route in ROUTES if route.body is not None]
WITH_QUERY: Final = [route.operation for route in ROUTES if route.query is not None]
FIELDS: Final = sorted(
    {
        field.encode_name
        for route in WITH_BODY
        if isinstance(route.body, type) and issubclass(route.body, msgspec.Struct)
        for field in msgspec.structs.fields(route.body)
    }
)
JSON_WORDS: Final = [
    b"{", b"}", b"[", b"]", b'{"other":', b'"', b":", b",", b"null", b"true", b"1", b"-1",
    b"1e999", b"9" * 30, b'"\\ud800"', b"\\u0000", b"\xff", b"\xed\xa0\x80", b"\0", b" ",
    b"\xef\xbb\xbf",
    *(f'"{name}":'.encode() for name in FIELDS),
]  # fmt: skip
sound_text: Final = st.text(st.characters(codec="utf-8"), max_size=20)
FIELD_VALUES: Final[dict[str, SearchStrategy[Any]]] = {
    "name": st.sampled_from(["dev", "lake2", "jane", "x" * 300]),
    "id": st.sampled_from(["jane", "v1", "policy", "group"]) | any_text,
    "source": st.sampled_from(["main", "main~1"]),
    "ref": st.sampled_from(["main", "main~1", "dev"]),
    "message": sound_text,
    "storage_namespace": st.sampled_from(["mem://lakes/lake2", "local://x", "mem://", ""]),
    "paths": st.lists(st.sampled_from(["a", "folder/b", "", "\0"]), max_size=3),
    "src_path": st.sampled_from(["a", "none", ""]),
    "metadata": st.dictionaries(sound_text, sound_text, max_size=2),
    "set": st.dictionaries(sound_text, sound_text, max_size=2),
    "pattern": st.sampled_from(["main", "*", "[", ""]),
    "type": st.sampled_from(["object", "prefix", "reset", "common_prefix"]),
    "path": st.sampled_from(["a", "", "\0"]),
    "date": st.integers(),
    "mtime": st.integers(),
    "size_bytes": st.integers(0, 1 << 64),
    "checksum": sound_text,
    "physical_address": st.sampled_from(["mem://lakes/lake/x", "mem://other/x", "s3://b/x", ""]),
    "staging": st.fixed_dictionaries({"physical_address": st.just("mem://lakes/lake/x")}),
    "parent_number": st.integers(-1, 3),
    "statement": st.lists(
        st.fixed_dictionaries(
            {
                "effect": st.sampled_from(["allow", "deny", "x"]),
                "resource": st.sampled_from(["*", "[", "arn:lakefs:fs:::*"]),
                "action": st.lists(st.sampled_from(["fs:*", "x"]), max_size=2),
            }
        ),
        max_size=2,
    ),
    "access_key_id": st.sampled_from(["AKIAJADMIN", "AKIAOTHER", "\0"]),
    "secret_access_key": st.sampled_from(["admin-secret", "é"]),
    "permission": st.sampled_from(["Read", "Admin", "x"]),
    "strategy": st.sampled_from(["", "source-wins", "x"]),
    "commits_meta_range_id": any_text,
    "tags_meta_range_id": any_text,
    "branches_meta_range_id": any_text,
    "keys": st.lists(any_text, max_size=2),
    "continuation_token": any_text,
}
bodies: Final = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6).map(
    lambda value: json.dumps(value).encode()
) | json_values.map(lambda value: json.dumps(value).encode())


def content_of(
    of: Any, named: Mapping[str, SearchStrategy[Any]], others: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Contents with the fields of a struct, each of which is named or like the others."""
    if not (isinstance(of, type) and issubclass(of, msgspec.Struct)):
        return st.dictionaries(st.sampled_from(sorted(named)), others, max_size=3)
    fields = msgspec.structs.fields(of)
    drawn = {each.encode_name: named.get(each.name, others) for each in fields}
    needed = {each.encode_name for each in fields if each.required}
    return st.fixed_dictionaries(
        {name: drawn[name] for name in sorted(needed)},
        optional={name: drawn[name] for name in sorted(drawn.keys() - needed)},
    )


@st.composite
def asked_bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """An operation, and a body with its fields."""
    route = draw(st.sampled_from(WITH_BODY))
    sound = content_of(route.body, FIELD_VALUES, json_values)
    return route.operation, draw(texts(JSON_WORDS, bodies | sound.map(json.dumps).map(str.encode)))


@targets.add(asked_bodies())
def json_bodies(case: tuple[str, bytes]) -> None:
    """A body that is read can be written, is read again as it is, and names permissions."""
    operation, text = case
    route = BY_NAME[operation]
    decode = msgspec.json.Decoder(route.body).decode
    found = attempt(BadRequest, _decode, decode, text, route.body)
    if found is None:
        return
    assert decode(msgspec.json.encode(found)) == found
    if isinstance(route.needs, tuple) and route.query is None:
        permissions(route, dict.fromkeys(route.parameters, "x"), {"body": found})


QUERY_WORDS: Final = [
    "prefix", "path", "=", "&", ";", "%", "%00", "%ff", "%ed%a0%80", "%C3%BC", "+", "-1", "true",
    "9" * 30, "1e3", "é", "a",
]  # fmt: skip


@st.composite
def asked_queries(draw: st.DrawFn) -> tuple[str, str]:
    """An operation, and a query with its parameters."""
    operation = draw(st.sampled_from(WITH_QUERY))
    query = BY_NAME[operation].query
    assert query is not None
    names = [field.encode_name for field in msgspec.structs.fields(query)]
    pairs = st.tuples(st.sampled_from(names), st.just("="), st.sampled_from(QUERY_WORDS))
    sound = st.lists(pairs.map("".join), max_size=4).map("&".join)
    return operation, draw(texts(QUERY_WORDS, sound))


@targets.add(asked_queries())
def queries(case: tuple[str, str]) -> None:
    """No text of a query that is read holds a NUL."""
    operation, text = case
    query = BY_NAME[operation].query
    assert query is not None
    found = attempt(BadRequest, _read_query, text, query, _list_fields(query))
    if found is not None:
        for value in msgspec.structs.asdict(found).values():
            assert not isinstance(value, str) or "\0" not in value


YAML_BYTES_MAX: Final = 1 << 10
"""The library takes long for what is nested deep, but strangers do not write settings."""
SETTINGS: Final = """
listen: {host: 127.0.0.1, port: 8000, trusted_proxies: [10.0.0.0/8]}
database: {url: "memory://"}
blockstore: {type: memory}
auth: {secret_key: 0123456789abcdef0123456789abcdef}
"""
YAML_WORDS: Final = [
    "listen", "port", "database", "url", "auth", "secret_key", "blockstore", "limits", ": ", ":",
    "\n", "\n  ", "- ", "[", "]", "{", "}", "&a ", "*a", "!!int ", "!!float ", "!!bool ",
    "!!timestamp ", "!!binary ", "''", "|", ">", "!!python/object:os.system ",
    "2026-13-45", "2026-11-15", "1e999", "0x", "1_0", "~", "'", '"', "#", "%", "<<: ", "? ", "---",
    "\t", "é", "\x85", "9" * 5000, "1:2:3", ".inf", "=",
]  # fmt: skip


_FOLDER: Final = tempfile.TemporaryDirectory(prefix="lakebed-fuzz-")


def _in_file(text: str, name: str) -> Path:
    file = Path(_FOLDER.name, name)
    file.write_bytes(text.encode(errors="surrogatepass"))
    return file


@targets.add(texts(YAML_WORDS, st.just(SETTINGS), longest=YAML_BYTES_MAX))
def yaml_settings(text: str) -> None:
    """Settings are read, or it is said what is wrong."""
    file = _in_file(text, "server.yaml")
    found = attempt(SettingsError, config_files.load, file, environment={})
    assert found is None or isinstance(found, ServerSettings)


LAKECTL: Final = """
server: {endpoint_url: "http://127.0.0.1:8000/api/v1"}
credentials: {access_key_id: AKIA, secret_access_key: secret}
"""


@targets.add(
    texts([*YAML_WORDS, "server", "credentials"], st.just(LAKECTL), longest=YAML_BYTES_MAX)
)
def yaml_of_lakectl(text: str) -> None:
    file = _in_file(text, "lakectl.yaml")
    attempt(
        client_errors.ClientSettingsError,
        load_settings,
        environ={},
        config_file=file,
        endpoint=None,
    )


@targets.add(
    texts(
        [word.decode("latin-1") for word in JSON_WORDS],
        st.just('{"statement": [{"effect": "allow", "action": ["fs:*"], "resource": "*"}]}'),
    )
)
def policy_files(text: str) -> None:
    attempt(CommandError, _read_statements, _in_file(text, "policy.json"))


names: Final = st.sampled_from(["LISTEN__PORT", "DATABASE__URL", "AUTH__SECRET_KEY", "OTHER", ""])


@targets.add(
    st.dictionaries(
        names.map(lambda name: config_files.ENVIRONMENT_PREFIX + name),
        damaged(st.just("8000"), ["-", "1e3", "²", ",", "\0", "true", " "]),
    )
)
def variables(environment: dict[str, str]) -> None:
    attempt(SettingsError, config_files.load, environment=environment)


def _deep(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@targets.add(st.integers(1, 100))
def anchors(depth: int) -> None:
    """A small file that stands for a large one is refused, or costs little."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, min(depth, 30))]
    text = "\n".join([*lines, f"listen: {{port: *a{min(depth, 30) - 1}}}"])
    attempt(SettingsError, config_files.load, _in_file(text, "anchors.yaml"), environment={})
    text = yaml.safe_dump(_deep("x", depth))
    attempt(SettingsError, config_files.load, _in_file(text, "deep.yaml"), environment={})
