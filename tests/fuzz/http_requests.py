"""What requests to any API hold: forms, ranges, conditions, tokens, addresses, lengths."""

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, cast

from falcon.testing import create_environ
from hypothesis import strategies as st

from lakebed.auth import AuthenticationFailed
from lakebed.block import Address
from lakebed.lake.errors import RangeNotSatisfiable
from lakebed.server.http.authentication import authenticate
from lakebed.server.http.bodies import Body, BodyError
from lakebed.server.http.browsers import (
    BrowserRefused,
    BrowserRules,
    Sender,
    refuse_path,
    sender_of,
)
from lakebed.server.http.conditions import matches, requested_range, select_bytes, write_condition
from lakebed.server.http.dispositions import safe_disposition
from lakebed.server.http.forms import form_file
from lakebed.server.http.logs import mask_secrets
from lakebed.server.http.presigned import PATH, URLSigner
from lakebed.server.http.request import UNKNOWN, RequestRecord, TrustedProxies
from lakebed.server.s3.environ import environ_key
from lakebed.server.s3.read_conditions import evaluate, is_unchanged
from tests.fuzz.inputs import in_pieces, piece_sizes, texts, wire_text
from tests.fuzz.target import Targets, attempt
from tests.kit.bodies import Input

targets: Final = Targets()

FORM_WORDS: Final = [
    b"--b", b"--b--", b"\r\n", b"\r\n--b", b"\n", b"\r", b"--", b"-", b"b", b" ", b"\t", b":", b";",
    b"Content-Disposition: form-data; ", b'name="content"', b"filename*=UTF-8''%ff", b'filename="',
    b'"', b"\\", b'\\"', b"Content-Type: text/csv", b"\xff", b"\0", b"x", b"",
]  # fmt: skip
TYPE_WORDS: Final = [
    "multipart/form-data", "; ", "boundary=", "b", '"', "\\", '\\"', ";", "=", ",", " ", "\xff",
    "charset=utf-8", "boundary*0=", "b" * 71, "",
]  # fmt: skip
CHUNKED: Final = {"HTTP_TRANSFER_ENCODING": "chunked"}
FORM: Final = (
    b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n1\r\n'
    b'--b\r\nContent-Disposition: form-data; name="content"; filename="a"\r\n'
    b"Content-Type: text/csv\r\n\r\nsome bytes\r\n--b--\r\n"
)


@targets.add(st.tuples(texts(FORM_WORDS, st.just(FORM)), piece_sizes))
def forms(case: tuple[bytes, int]) -> None:
    """The pieces in which a form comes make no difference."""
    form, size = case

    def read(size: int) -> bytes:
        body = Body({"wsgi.input": Input(in_pieces(form, size)), **CHUNKED}, seconds_max=60)
        file = form_file(body, "multipart/form-data; boundary=b", field="content")
        return b"".join(file.chunks)

    assert attempt(BodyError, read, size) == attempt(BodyError, read, 1 << 18)


@targets.add(texts(TYPE_WORDS, st.just("multipart/form-data; boundary=b")))
def types_of_forms(of_type: str) -> None:
    def read() -> bytes:
        body = Body({"wsgi.input": Input([FORM]), **CHUNKED}, seconds_max=60)
        return b"".join(form_file(body, of_type, field="content").chunks)

    assert attempt(BodyError, read) in {None, b"some bytes"}


@targets.add(
    texts(
        [
            "0",
            "7",
            "-1",
            "+1",
            " ",
            "1e3",
            "0x1",
            "²",
            "\N{ARABIC-INDIC DIGIT ONE}",
            "9" * 20,
            "9" * 5000,
        ]
    )
)
def lengths_of_bodies(text: str) -> None:
    def read() -> bytes:
        environ = {"wsgi.input": Input([b"content"]), "CONTENT_LENGTH": text}
        return Body(environ, seconds_max=60).read(1000)

    assert attempt(BodyError, read) in {None, b"", b"content", b"content"[: len(text)]}


RANGE_WORDS: Final = [
    "bytes=", "bytes", "=", "-", ",", " ", "0", "1", "99", "9" * 19, "9" * 20, "²", "٣", "items=",
    "\t", "\xa0", "",
]  # fmt: skip


@targets.add(st.tuples(texts(RANGE_WORDS), st.sampled_from([0, 1, 10, 2**63 - 1])))
def byte_ranges(case: tuple[str, int]) -> None:
    """What is selected lies within the object."""
    header, size = case
    selected = attempt(RangeNotSatisfiable, select_bytes, requested_range(header), size)
    if selected is not None:
        assert 0 <= selected.length <= size
        assert (selected.byte_range is None) == (not selected.headers)


DATE_WORDS: Final = [
    "Sun, 15 Nov 2026 12:00:00 GMT", "Sun", ", ", " ", "15", "Nov", "2026", "12:00:00", ":", "GMT",
    "+0000", "-2359", "+9999", "9" * 30, "0001", "0000", "9999", "31", "Dec", "60", "T", "Z", "-",
    "(", ")", ".", '"', "\xa0", "²", "99:99", "",
]  # fmt: skip
MARK_WORDS: Final = ['"', "abc", "*", ",", " ", "W/", '"abc"', "\\", "\xff", ""]
CONDITIONS: Final = {
    "If-Match": texts(MARK_WORDS),
    "If-None-Match": texts(MARK_WORDS),
    "If-Modified-Since": texts(DATE_WORDS, st.just(DATE_WORDS[0])),
    "If-Unmodified-Since": texts(DATE_WORDS, st.just(DATE_WORDS[0])),
    "If-Range": texts([*MARK_WORDS, *DATE_WORDS]),
}
times: Final = st.datetimes(timezones=st.just(UTC))


@targets.add(st.tuples(st.fixed_dictionaries({}, optional=CONDITIONS), times))
def conditions(case: tuple[dict[str, str], datetime]) -> None:
    """Any condition comes to some verdict."""
    headers, time = case
    stats = cast("Any", SimpleNamespace(checksum="abc", mtime=time))
    evaluate(stats, headers.get)
    is_unchanged(stats, headers.get("If-Range", ""))
    condition = write_condition(
        {environ_key(name.lower()): value for name, value in headers.items()}
    )
    if condition is not None:
        condition(None)
        condition(stats)
    if "If-Match" in headers:
        matches(headers["If-Match"], "abc")


SIGNER: Final = URLSigner(b"0123456789abcdef0123456789abcdef")
ADDRESS: Final = Address.parse("mem://lakes/lake/a")
GOOD_TOKEN: Final = SIGNER.sign("GET", ADDRESS, 2_000_000_000).removeprefix(PATH)


@targets.add(
    st.tuples(
        st.sampled_from(["GET", "PUT"]),
        texts([".", "=", "A", "-", "_", "+", "é", "\ud800", "\n", ""], st.just(GOOD_TOKEN)),
        st.sampled_from([0.0, 1.9e9, 2e9, 3e9]),
    )
)
def presigned_tokens(case: tuple[str, str, float]) -> None:
    """A token opens what it was made for, and nothing else."""
    method, token, now = case
    found = attempt(AuthenticationFailed, SIGNER.open, method, token, now)
    if found is not None:
        assert (method, found.address) == ("GET", ADDRESS)
        assert now < 2e9


@targets.add(
    texts(
        [
            "127.0.0.1",
            "10.1.2.3",
            "::1",
            "[::1]:80",
            ":",
            ",",
            " ",
            "[",
            "]",
            "%eth0",
            "fe80::1",
            "1.2.3",
            "01.2.3.4",
            "²",
            "unknown",
            "::ffff:10.0.0.1",
            "9" * 50,
        ]
    )
)
def forwarded_addresses(header: str) -> None:
    """The address is one, or is not known; it is never that of the proxy itself."""
    proxies = TrustedProxies(["127.0.0.0/8"])
    found = proxies.client_of({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": header})
    assert found == UNKNOWN or found == proxies.client_of({"REMOTE_ADDR": found})


class _NoUsers:
    def authenticate_token(self, token: str) -> None:
        raise AuthenticationFailed

    def authenticate(self, access_key_id: str, secret: str, *, client: str) -> None:
        raise AuthenticationFailed


AUTHORIZATION_WORDS: Final = [
    "Basic ", "basic", "Bearer ", " ", base64.b64encode(b"a:b").decode(), "YQ==", "/w==", "=", "é",
    "internal_auth_session=", '"', ";", "\\", "\\303", ",", "a", "$", "\t", "\x7f",
]  # fmt: skip


@targets.add(st.tuples(st.sampled_from(["Authorization", "Cookie"]), texts(AUTHORIZATION_WORDS)))
def proofs_of_users(case: tuple[str, str]) -> None:
    name, value = case
    environ = create_environ()
    environ[f"HTTP_{name.upper()}"] = value
    services = cast("Any", SimpleNamespace(auth=_NoUsers()))
    refusals = (AuthenticationFailed, BrowserRefused)
    attempt(refusals, authenticate, services, environ, client="127.0.0.1")


@targets.add(texts(["/", "a", "\x00", "\xc3\xbc", "\xff", "..", "%2e", "\xed\xa0\x80"], wire_text))
def request_paths(path: str) -> None:
    """No later step sees a path that two readers read in two ways."""
    environ, record = {"PATH_INFO": path}, RequestRecord("id", "GET", path, 0.0)
    is_refused = refuse_path(environ, lambda *_: lambda _: None, record)
    if not is_refused:
        assert "\0" not in path.encode("latin-1").decode()


ORIGIN_WORDS: Final = [
    "http://", "https://", "null", "localhost", "127.0.0.1", "example.org", ".localhost", "[::1]",
    "[", "]", ":8000", ":x", ":99999", "/", "?", "#", "@", "\\", "%2f", "\xff", "\t", "%", ".",
    "0x7f.1",
]  # fmt: skip
GUARD: Final = BrowserRules(
    keys_are_known=lambda: True,
    host="127.0.0.1",
    domain="s3.example.org",
    api_path="/api/v1",
    objects_path="/presigned/",
    objects_origin="http://objects.localhost:8000",
)
origins: Final = texts(ORIGIN_WORDS, st.sampled_from(["http://localhost:8000", "localhost"]))


@targets.add(
    st.fixed_dictionaries(
        {"REQUEST_METHOD": st.sampled_from(["GET", "POST"]), "PATH_INFO": st.just("/api/v1/user")},
        optional={
            "HTTP_HOST": origins,
            "HTTP_ORIGIN": origins,
            "HTTP_REFERER": origins,
            "HTTP_X_FORWARDED_HOST": origins,
            "HTTP_SEC_FETCH_SITE": st.sampled_from(["same-origin", "same-site", "none", "x"]),
            "HTTP_SEC_FETCH_MODE": st.sampled_from(["navigate", "cors", "x"]),
            "HTTP_UPGRADE_INSECURE_REQUESTS": st.just("1"),
            "HTTP_AUTHORIZATION": st.just("Basic x"),
        },
    )
)
def requests_of_browsers(environ: dict[str, str]) -> None:
    """No page but our own may use a server whose keys are known."""
    attempt(BrowserRefused, GUARD.check_origin, environ)
    try:
        GUARD.check(environ)
    except BrowserRefused:
        assert GUARD.applies(environ), "the guard is asked only where it applies"
        return
    assert sender_of(environ) is not Sender.CROSS_ORIGIN


@targets.add(
    st.tuples(
        texts(["text/html", "text/plain", "image/svg+xml", "; ", ",", "charset=", "utf-8", "\xff"]),
        texts(["attachment", "inline", ";", " ", "filename=", '"', ","]) | st.none(),
    )
)
def dispositions(case: tuple[str, str | None]) -> None:
    """What may hold a script is only saved."""
    content_type, wanted = case
    shown = safe_disposition(content_type, wanted)
    if "html" in content_type or "svg" in content_type:
        assert shown is not None
        assert shown.lower().strip().startswith("attachment")


SECRET_WORDS: Final = [
    "http://", "user", ":", "pass", "@", "host", "/", "?", "&", "=", "#", "token=", "secret", "-",
    "X-Amz-Signature=abc", "\n", " ", "'", '"', "sig", "Ä",
]  # fmt: skip


@targets.add(texts(SECRET_WORDS))
def masked_logs(text: str) -> None:
    """The value of a parameter that is a secret by its name is never shown."""
    assert "Signature=abc" not in mask_secrets(text)
