"""Pages outside of the API: the web UI, the OpenAPI description, metrics, health."""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from html import escape
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import quote

import falcon
import msgspec

from lakebed import __version__
from lakebed.server.api.openapi import describe
from lakebed.server.api.routes import Route
from lakebed.server.http import metrics
from lakebed.server.http.authentication import COOKIE, log_out
from lakebed.server.http.browsers import check_page
from lakebed.server.http.errors import JSON_TYPE, answer_error, note_error
from lakebed.server.http.metrics import MetricsReaders, MetricsRefused
from lakebed.server.http.request import current_record
from lakebed.server.s3.errors import ErrorCode, S3Error, error_body
from lakebed.server.s3.xml_writer import XML_TYPE
from lakebed.server.services import Services
from lakebed.server.settings import MetricsSettings, ServerSettings
from lakebed.wire.base import Error

PREFIX: Final = "/_ui"
"""The URL prefix of the files; no repository can have this name."""

INDEX: Final = "index.html"
API: Final = "api.html"
_FIRST_MODULES: Final = ("main.js", "pages/objects.js")
_IMPORTED: Final = re.compile(r'from "(\.[^"]+)"')
_DIGEST_LENGTH: Final = 16
_PACKED: Final = ".gz"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the web UI."""

    content_type: str
    packed: bytes

    @property
    def plain(self) -> bytes:
        return gzip.decompress(self.packed)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of one version of the web UI.

    Without a build step: the browser gets the modules of ``app/`` unchanged. Their URLs contain a
    digest of all files, so they can be cached forever, and modules of two versions never mix. Large
    third-party files are stored compressed, as ``NAME.gz``.
    """

    digest: str
    by_name: dict[str, Asset]
    templates: dict[str, str]
    """The documents, with placeholders."""

    def document(self, name: str, features: Iterable[str] = ()) -> bytes:
        """Return a document, `INDEX` or `API`; pages of features not in `features` are hidden."""
        folder = f"{PREFIX}/{self.digest}"
        # Preload the modules of most visits: no chain of requests to discover imports.
        modules = "\n".join(
            f'<link rel="modulepreload" href="{folder}/{each}">'
            for each in sorted(self.needed_by(_FIRST_MODULES))
        )
        filled = self.templates[name].replace("{{folder}}", folder).replace("{{modules}}", modules)
        filled = filled.replace("{{features}}", escape(" ".join(sorted(features))))
        return filled.replace("{{version}}", escape(__version__)).encode()

    def needed_by(self, names: Iterable[str]) -> set[str]:
        """Return modules and their transitive static imports; pages are imported dynamically."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            folder = name.rpartition("/")[0]
            imported = _IMPORTED.findall(self.by_name[name].plain.decode())
            waiting += [posixpath.normpath(posixpath.join(folder, each)) for each in imported]
        return found


@cache
def load_assets() -> Assets:
    """Read the files, once per process."""
    found = dict(sorted(_walk(files(__package__).joinpath("app"), "")))
    digest = hashlib.sha256()
    for name, data in found.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    templates = {name: found.pop(name).decode() for name in (INDEX, API)}
    by_name = {}
    for name, data in found.items():
        served = name.removesuffix(_PACKED)
        content_type = _TYPES.get(served[served.rfind(".") :])
        if content_type is not None:
            packed = data if served != name else gzip.compress(data, 9, mtime=0)
            by_name[served] = Asset(content_type, packed)
    return Assets(digest.hexdigest()[:_DIGEST_LENGTH], by_name, templates)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, each.read_bytes()


NO_SUCH_OPERATION: Final = "invalid API endpoint"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types "
)
DOCUMENT_HEADERS: Final = {
    # Scripts and styles only from this server, no conversion of text to markup or scripts, and no
    # embedding in frames.
    "Content-Security-Policy": f"{_POLICY}'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
API_HEADERS: Final = DOCUMENT_HEADERS | {
    # Swagger UI registers DOMPurify as it loads; the page does not use it.
    "Content-Security-Policy": f"{_POLICY}dompurify",
}
_NOT_IMPLEMENTED: Final = 501
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_REVALIDATE: Final = "no-cache"

_FEATURES: Final = {
    "actions": "listRepositoryRuns",
    "gc-runs": "listGarbageCollectionRuns",
    "import": "importStart",
    "pulls": "createPullRequest",
    "retention": "setGCRules",
}
"""Pages shown only if the server has this operation."""


def features_of(routes: Iterable[Route], settings: ServerSettings) -> set[str]:
    """Return the names of the features that a server offers to the pages."""
    implemented = {route.operation for route in routes if route.status != _NOT_IMPLEMENTED}
    found = {name for name, operation in _FEATURES.items() if operation in implemented}
    if not settings.hooks.enabled:
        found.discard("actions")
    return found | ({"reclaim"} if settings.reclaim.enabled else set())


def add_pages(
    app: "falcon.App[falcon.Request, falcon.Response]",
    services: Services,
    routes: Iterable[Route],
    *,
    base_path: str,
) -> None:
    """Add the pages to an application."""
    # The document of the web UI, for all of its pages.
    home = _Document(INDEX, DOCUMENT_HEADERS, features_of(routes, services.settings))
    app.add_route("/", home)
    app.add_route(f"{PREFIX}/{{digest}}/{{name:path}}", _File())
    app.add_route("/openapi.json", _Description(routes, base_path))
    app.add_route("/docs", _Document(API, API_HEADERS))
    app.add_route("/healthcheck", _Healthy())
    app.add_route("/_health", _HealthyInWords())
    app.add_route("/metrics", _Metrics(services.settings.metrics))
    app.add_route("/logout", _Logout(services))
    # Unknown paths below the base path get an error of the API. All other paths are pages of the
    # web UI for browsers, and keys of objects for programs.
    app.add_sink(partial(_show_home, home), f"(?!{base_path}(?:/|$))/")


class _Document:
    """A document for browsers, cached by ETag."""

    def __init__(self, name: str, headers: Mapping[str, str], features: Iterable[str] = ()) -> None:
        self._name = name
        self._headers = headers
        self._features = features

    @cached_property
    def _content(self) -> tuple[bytes, str]:
        data = load_assets().document(self._name, self._features)
        return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        data, etag = self._content
        response.set_headers(self._headers)
        response.set_header("Cache-Control", _REVALIDATE)
        response.set_header("ETag", etag)
        if request.get_header("If-None-Match") == etag:
            response.status = falcon.HTTP_NOT_MODIFIED
            return
        response.data = data
        response.content_type = "text/html; charset=utf-8"

    on_head = on_get


class _File:
    """A file referenced by the document, under the digest of its version."""

    def on_get(
        self, request: falcon.Request, response: falcon.Response, digest: str, name: str
    ) -> None:
        assets = load_assets()
        found = assets.by_name.get(name)
        # The document of another version must be reloaded: versions must not mix.
        if found is None or digest != assets.digest:
            raise falcon.HTTPNotFound
        response.content_type = found.content_type
        response.set_header("Cache-Control", _IMMUTABLE)
        response.set_header("ETag", f'"{digest}"')
        response.set_header("Vary", "Accept-Encoding")
        if "gzip" in (request.get_header("Accept-Encoding") or ""):
            response.set_header("Content-Encoding", "gzip")
            response.data = found.packed
        else:
            response.data = found.plain


def _show_home(home: _Document, request: falcon.Request, response: falcon.Response) -> None:
    if request.path.startswith(f"{PREFIX}/"):
        raise falcon.HTTPNotFound
    # lakectl recognizes a wrong endpoint, as /api/v11, by the page.
    is_page = request.path.startswith("/api/") or "text/html" in (
        request.get_header("Accept") or ""
    )
    if not is_page:
        _deny(request, response)
    elif request.method not in {"GET", "HEAD"}:
        raise falcon.HTTPNotFound
    else:
        home.on_get(request, response)


def _deny(request: falcon.Request, response: falcon.Response) -> None:
    """Refuse the unsigned request of an S3 client: a page would pass for an object."""
    record = current_record()
    error = S3Error(ErrorCode.ACCESS_DENIED, "the request is not signed")
    note_error(error, error.code.status, error.code.code)
    response.status = error.code.status.value
    response.content_type = XML_TYPE
    response.data = error_body(
        error,
        resource=quote(request.env["PATH_INFO"], safe="/", encoding="latin-1"),
        request_id="" if record is None else record.request_id,
    )


class _Description:
    def __init__(self, routes: Iterable[Route], base_path: str) -> None:
        self._routes = routes
        self._base_path = base_path

    # Built at the first request: it takes 0.1 s, and few processes need it.
    @cached_property
    def _data(self) -> bytes:
        return msgspec.json.encode(describe(self._routes, base_path=self._base_path))

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        response.data = self._data
        response.content_type = JSON_TYPE


class _Healthy:
    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        response.status = falcon.HTTP_NO_CONTENT


class _HealthyInWords:
    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        response.text = "alive!"
        response.content_type = "text/plain; charset=utf-8"


class _Metrics:
    def __init__(self, settings: MetricsSettings) -> None:
        self._readers = MetricsReaders(settings)

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        record = current_record()
        client = "" if record is None else record.client
        if not self._readers.may_read(client, request.get_header("Authorization")):
            answer_error(MetricsRefused(), "metrics", response)
            return
        response.data = metrics.render()
        response.content_type = metrics.CONTENT_TYPE


class _Logout:
    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        try:
            check_page(request.env)  # changes state, although it is a GET
            log_out(self._services.auth, request.env)
        except Exception as error:  # noqa: BLE001 - the last place that can answer
            answer_error(error, "logout", response)
            return
        response.unset_cookie(COOKIE, path="/")
        response.status = falcon.HTTP_SEE_OTHER
        response.set_header("Location", "/")


def serialize_error(
    request: falcon.Request, response: falcon.Response, error: falcon.HTTPError
) -> None:
    """Answer Falcon's own errors (no such path, no such method) like any other error."""
    is_method = error.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    kind, message = "no_such_method" if is_method else "no_such_path", NO_SUCH_OPERATION
    detail = f"unknown operation {request.method} {request.path}"
    record = current_record()
    if record is not None:
        record.kind = kind
    response.data = msgspec.json.encode(Error(message=message, kind=kind, detail=detail))
    response.content_type = JSON_TYPE
