"""Whole requests to every route of the REST API and to S3, in this process, by an administrator.

Whatever is asked, the answer is not a failure of the server, and nothing is logged as an error.
"""

import base64
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from lakebed.server.api.operations import ROUTES, not_implemented
from lakebed.server.api.routes import Route
from lakebed.server.s3 import xml_reader
from tests.fuzz.documents import FIELD_VALUES, JSON_WORDS, QUERY_WORDS, bodies, content_of
from tests.fuzz.http_requests import CONDITIONS, FORM, FORM_WORDS, RANGE_WORDS, TYPE_WORDS
from tests.fuzz.inputs import any_text, damaged, json_values, mostly, texts, wire_text
from tests.fuzz.s3_requests import REQUEST_HEADERS, XML_WORDS, documents
from tests.fuzz.target import Targets
from tests.server.kit import ADMIN
from tests.server.s3.gateway_client import Answer, GatewayClient, gateway_client

targets: Final = Targets()

ALLOWED: Final = frozenset({501, 503})
"""What a server may answer although it is a failure: not implemented, busy."""
REQUESTS_MAX: Final = 500
"""After so many, requests have made a mess, and a new server is started."""
STATEMENT: Final = {"effect": "allow", "resource": "*", "action": ["fs:Read*"]}
BASIC: Final = (
    "Basic "
    + base64.b64encode(f"{ADMIN.access_key_id}:{ADMIN.secret_access_key}".encode()).decode()
)


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


class _Clients:
    """A server, and a new one now and then."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._client: GatewayClient | None = None
        self._asked = 0

    def client(self) -> GatewayClient:
        if self._client is None or self._asked >= REQUESTS_MAX:
            self._stack.close()
            self._client = self._stack.enter_context(
                gateway_client(default_namespace_prefix="mem://made")
            )
            self._asked = 0
            self._fill(self._client)
        self._asked += 1
        return self._client

    def _fill(self, fresh: GatewayClient) -> None:
        for key in ("a", "folder/b", "ü"):
            assert fresh.ask("PUT", f"/lake/main/{quote(key)}", b"content").status == 200
        for path, content in (
            ("repositories/lake/branches/main/commits", {"message": "first"}),
            ("repositories/lake/branches", {"name": "dev", "source": "main"}),
            ("repositories/lake/tags", {"id": "v1", "ref": "main"}),
            ("auth/users", {"id": "jane"}),
            ("auth/groups", {"id": "group"}),
            ("auth/policies", {"id": "policy", "statement": [STATEMENT]}),
        ):
            made = _rest(fresh, "POST", f"/api/v1/{path}", "", {}, json.dumps(content).encode())
            assert made.status == 201, made.body


_CLIENTS: Final = _Clients()


@contextmanager
def _nothing_logged() -> Iterator[None]:
    errors, logger = _Errors(), logging.getLogger("lakebed")
    logger.addHandler(errors)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(errors)
        logger.propagate = propagated
    for record in errors.found:
        raise AssertionError(record.getMessage()) from (record.exc_info or (None, None))[1]


def _rest(
    asked: GatewayClient, method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> Answer:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1:8000",
        "HTTP_AUTHORIZATION": BASIC,
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        **headers,
    }
    return asked.send(environ, body)


def _check(answer: Answer) -> None:
    assert answer.status < 500 or answer.status in ALLOWED, (answer.status, answer.body)
    for name, value in answer.headers.items():
        assert (name + value).isascii(), (name, value)
        assert (name + value).isprintable(), (name, value)


THERE: Final = [
    route for route in ROUTES if route.tag not in {each.tag for each in not_implemented.routes}
]
PARTS: Final = {
    "repository": ["lake", "lake", "lake", "lake2", "none"],
    "branch": ["main", "dev"],
    "destination_branch": ["main", "dev"],
    "ref": ["main", "main~1", "main@", "main$", "dev", "v1"],
    "source_ref": ["main", "dev"],
    "left_ref": ["main", "main~1"],
    "right_ref": ["main", "dev"],
    "tag": ["v1"],
    "user": ["jane"],  # not the one who asks
    "group": ["group"],
    "policy": ["policy"],
    "kind": ["range", "meta_range"],
}
BAD_PARTS: Final = texts(
    ["a", "~", "^", "..", "%", " ", "\xc3\xbc", "\x7f", "*", "\\", "0" * 64, "."]
)
QUERY_VALUES: Final = ["a", "folder/", "/", "true", "0", "-1", "1000", "9" * 30, "main", ""]
PATHS: Final = ["a", "folder/b", "ü", "new"]


@st.composite
def rest_requests(draw: st.DrawFn) -> tuple[str, str, str, dict[str, str], bytes]:
    """Requests to an operation, most of which could succeed."""
    route: Route = draw(st.sampled_from(THERE) | st.sampled_from(ROUTES))
    path = "/api/v1" + route.path
    for name in route.parameters:
        is_last = route.operation == "deleteRepository"  # nothing would be left for the others
        usual = st.sampled_from(["lake2"] if is_last else PARTS.get(name, ["a"]))
        part = draw(mostly(usual, BAD_PARTS))
        for template in (f"{{{name}}}", f"{{{name}:path}}"):
            path = path.replace(template, part)
    headers = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "HTTP_RANGE": texts(RANGE_WORDS),
                "HTTP_IF_NONE_MATCH": CONDITIONS["If-None-Match"],
                "HTTP_IF_MATCH": CONDITIONS["If-Match"],
                "HTTP_X_LAKEFS_META_A": wire_text,
                "HTTP_X_FORWARDED_FOR": wire_text,
                "HTTP_X_FORWARDED_HOST": wire_text,
                "HTTP_X_REQUEST_ID": wire_text,
                "HTTP_COOKIE": wire_text,
            },
        )
    )
    query = draw(mostly(queries_of(route), texts(QUERY_WORDS)))
    if route.uploads:
        headers["CONTENT_TYPE"] = draw(
            texts(TYPE_WORDS, st.just("multipart/form-data; boundary=b"))
        )
        body = draw(damaged(st.just(FORM), FORM_WORDS))
    elif route.body is not None:
        wanted = content_of(route.body, FIELD_VALUES, json_values).map(_encoded)
        body = draw(mostly(wanted, texts(JSON_WORDS, bodies)))
    else:
        body = b""
    return route.method, path, query, headers, body


def queries_of(route: Route) -> SearchStrategy[str]:
    """Queries with the parameters of an operation."""
    values = mostly(st.sampled_from(QUERY_VALUES), any_text)
    named = dict.fromkeys(["path", "dest_path"], mostly(st.sampled_from(PATHS), values))
    return content_of(route.query, named, values).map(
        lambda query: "&".join(
            f"{name}={quote(str(value).encode(errors='surrogatepass'))}"
            for name, value in query.items()
        )
    )


def _encoded(content: object) -> bytes:
    return json.dumps(content).encode()


@targets.add(rest_requests())
def requests_to_the_api(case: tuple[str, str, str, dict[str, str], bytes]) -> None:
    with _nothing_logged():
        answer = _rest(_CLIENTS.client(), *case)
    _check(answer)
    if answer.status >= 400 and answer.body and case[0] != "HEAD":
        assert json.loads(answer.body)["message"]


S3_QUERIES: Final = [
    "uploads", "uploadId=1", "partNumber=1", "delete", "list-type=2", "prefix=main/", "delimiter=/",
    "max-keys=1", "continuation-token=", "start-after=", "marker=a", "acl", "tagging", "location",
    "versioning", "attributes", "encoding-type=url", "response-content-type=a", "versionId=null",
    "key-marker=a", "upload-id-marker=a", "max-uploads=0", "part-number-marker=0", "policy", "x",
    "fetch-owner=true", "max-parts=0",
]  # fmt: skip
S3_PATHS: Final = [
    "/",
    "/lake",
    "/lake/main/",
    "/lake/main/a",
    "/lake/main/%C3%BC",
    "/made",
    "/none/a",
]


@st.composite
def s3_requests(draw: st.DrawFn) -> tuple[str, str, bytes, dict[str, str]]:
    method = draw(st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]))
    path = draw(
        st.sampled_from(S3_PATHS)
        | any_text.map(lambda text: f"/lake/main/{quote(text.encode(errors='replace'), safe='')}")
    )
    query = "&".join(draw(st.lists(st.sampled_from(S3_QUERIES), unique=True, max_size=2)))
    values = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): st.sampled_from(words)
        for name, words in REQUEST_HEADERS.items()
        if name != "HTTP_X_AMZ_META_"
    }
    values |= {"range": st.sampled_from(["bytes=0-1", "bytes=9-", "bytes=-1", "x"])}
    values |= {
        name.lower(): st.sampled_from(['"x"', "*", "Sun, 15 Nov 2026 12:00:00 GMT", "x"])
        for name in CONDITIONS
    }
    values |= {
        "content-md5": st.sampled_from(["1B2M2Y8AsgTpgAmY7PhCfg==", "x"]),
        "x-amz-object-attributes": st.sampled_from(["ETag,ObjectParts", "x", ""]),
        "x-amz-metadata-directive": st.sampled_from(["COPY", "REPLACE", "x"]),
        "x-amz-copy-source-if-match": st.sampled_from(["*", "x"]),
        "x-amz-storage-class": st.sampled_from(["STANDARD", "GLACIER"]),
        "x-amz-checksum-mode": st.sampled_from(["ENABLED", "x"]),
        "x-amz-max-parts": st.sampled_from(["1", "x"]),
    }
    names = draw(st.lists(st.sampled_from(sorted(values)), unique=True, max_size=2))
    headers = {name: draw(values[name]) for name in names}
    # botocore signs characters, the wire carries bytes; they are the same in ASCII only.
    ascii_headers = {name: value for name, value in headers.items() if value.isascii()}
    body = draw(st.just(b"") | documents() | texts(XML_WORDS))
    return method, f"{path}?{query}" if query else path, body, ascii_headers


@targets.add(s3_requests())
def requests_to_s3(case: tuple[str, str, bytes, dict[str, str]]) -> None:
    method, target, body, headers = case
    with _nothing_logged():
        answer = _CLIENTS.client().ask(method, target, body, headers=headers)
    _check(answer)
    if answer.status >= 400 and answer.body:
        assert xml_reader.parse(answer.body, "Error").get("Code")


PLACES: Final = [
    "/", "/api/v1/", "/api/v1/repositories", "/presigned/", "/metrics", "/_health", "/openapi.json",
    "/api/v1/../..", "//", "/api/v1/auth/login", "/static/",
]  # fmt: skip


@targets.add(
    st.tuples(
        st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "TRACE", "PATCH", "X"]),
        texts([*PLACES, "a", "\xff", "\x00", "..", "%2e", ";"], st.sampled_from(PLACES)),
        texts(["a=1", "&", "X-Amz-Signature=", "X-Amz-Algorithm", "AWSAccessKeyId=x", "%", "="]),
        st.fixed_dictionaries(
            {},
            optional={
                "HTTP_AUTHORIZATION": texts(
                    ["AWS4-HMAC-SHA256", "Bearer ", "Basic ", "a", "=", "\xff"]
                ),
                "HTTP_HOST": wire_text,
                "CONTENT_TYPE": texts(TYPE_WORDS),
                "CONTENT_LENGTH": st.sampled_from(["", "0", "7", "x", "-1", "9" * 30, "9" * 5000]),
                "HTTP_EXPECT": st.just("100-continue"),
                "HTTP_TRANSFER_ENCODING": st.just("chunked"),
                "HTTP_COOKIE": texts(["internal_auth_session=", "a", ";", '"', "\\", "\xff"]),
                "HTTP_ACCEPT": wire_text,
                "REMOTE_ADDR": wire_text,
            },
        ),
        json_values.map(lambda value: json.dumps(value).encode()),
    )
)
def requests_of_strangers(case: tuple[str, str, str, dict[str, str], bytes]) -> None:
    """Requests without credentials, or with wrong ones, to any path."""
    method, path, query, headers, body = case
    with _nothing_logged():
        answer = _rest(
            _CLIENTS.client(), method, path, query, {"HTTP_AUTHORIZATION": "", **headers}, body
        )
    _check(answer)
