"""The S3 gateway: the pipeline step that answers S3 clients."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIEnvironment

from lakebed.auth import Identity
from lakebed.base.actor import EntryPoint, acting_as
from lakebed.lake.errors import RepositoryNotFound, VersionNotFound
from lakebed.server.http import refusals
from lakebed.server.http.authentication import actor_of
from lakebed.server.http.browsers import BrowserRules
from lakebed.server.http.errors import RETRY_SECONDS, kind_of, note_error
from lakebed.server.http.refusals import Refusal
from lakebed.server.http.request import RequestRecord
from lakebed.server.s3 import sigv2, sigv4
from lakebed.server.s3.encryption import encryption_headers
from lakebed.server.s3.errors import ErrorCode, S3Error, error_body
from lakebed.server.s3.operations import OPERATIONS
from lakebed.server.s3.posted import Upload, read_form
from lakebed.server.s3.request import S3Reply, S3Request, raw_body
from lakebed.server.s3.router import S3Operation, S3Route, is_s3_request, route
from lakebed.server.s3.sigv4 import Verified
from lakebed.server.s3.translation import as_s3_error
from lakebed.server.s3.xml_writer import XML_TYPE
from lakebed.server.services import Services

_LOGGER: Final = logging.getLogger(__name__)
_NO_BODY: Final = frozenset({204, 304})

_BODY_CODES: Final = frozenset(
    {
        ErrorCode.BAD_DIGEST,
        ErrorCode.CONTENT_SHA256_MISMATCH,
        ErrorCode.INCOMPLETE_BODY,
        ErrorCode.MALFORMED_TRAILER,
        ErrorCode.REQUEST_TIMEOUT,
    }
)


class S3Gateway:
    """Pipeline step for the requests of S3 clients."""

    def __init__(self, services: Services, browser_rules: BrowserRules) -> None:
        self._services = services
        self._browser_rules = browser_rules
        self._domain = services.settings.gateways.s3.domain_name.lower()
        self.applies: Final = partial(is_s3_request, domain=self._domain)

    def answer(
        self, environ: WSGIEnvironment, start_response: StartResponse, record: RequestRecord
    ) -> Iterable[bytes]:
        try:
            reply = self._reply(environ, record)
        except Exception as error:  # noqa: BLE001 - the last place that can answer the client
            reply = _refusal(error, environ, record)
        return _send(reply, environ, record, start_response)

    def _reply(self, environ: WSGIEnvironment, record: RequestRecord) -> S3Reply:
        if self._browser_rules.applies(environ):
            self._browser_rules.check(environ)
        encryption = encryption_headers(self._services.catalog.encryption)
        asked = route(environ, domain=self._domain, satisfied=encryption)
        operation = OPERATIONS[asked.operation]
        record.operation = f"s3:{asked.operation.value}"
        form: Upload | None = None
        if asked.operation is S3Operation.POST_OBJECT:
            # The signature is in the form, which is read in a slot of unauthenticated clients.
            self._services.admission.admit(record, is_transfer=True)
            form = read_form(environ, raw_body(environ, self._services.settings.limits))
        verified = self._verify(environ, asked, form)
        record.user = verified.identity.user_id
        self._services.admission.admit(record, is_transfer=operation.is_transfer)
        self._services.catalog.usage.count()  # occasionally writes to the store
        request = S3Request(self._services, environ, asked, verified, record.client)
        if form is not None:
            request = form.as_put(request, self._now())
        identity = verified.identity
        actor = actor_of(self._services.auth, environ, identity, record, entry_point=EntryPoint.S3)
        try:
            with acting_as(actor):
                return operation.handle(request)
        except RepositoryNotFound as error:
            if _means_the_api(asked):
                raise S3Error(ErrorCode.NO_SUCH_BUCKET_BUT_API) from error
            raise

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._services.runtime.now(), UTC)

    def _verify(
        self, environ: WSGIEnvironment, asked: S3Route, form: Upload | None
    ) -> Verified[Identity]:
        now = self._now()
        secret_for = self._services.auth.secret_for
        try:
            _check_no_token(environ, asked, form)
            if form is not None:
                return sigv4.verify_form(form.fields, secret_for, now=now)
            if sigv2.has_signature(environ, asked):
                return sigv2.verify(environ, asked, secret_for, now=now)
            return sigv4.verify(environ, secret_for, now=now)
        except S3Error as error:
            refusals.count(Refusal.BAD_SIGNATURE, f"{error.code.code}: {error}")
            raise


def _check_no_token(environ: WSGIEnvironment, asked: S3Route, form: Upload | None) -> None:
    """Refuse session tokens, which Lakebed's keys do not have."""
    parameters = [*asked.query.items(), *(form.fields.items() if form else ())]
    is_sent = any(value for name, value in parameters if name.lower() == "x-amz-security-token")
    if is_sent or environ.get("HTTP_X_AMZ_SECURITY_TOKEN"):
        raise S3Error(ErrorCode.INVALID_TOKEN)


def _means_the_api(asked: S3Route) -> bool:
    """Whether a client seems to use the API's endpoint for S3."""
    return asked.is_path_style and asked.bucket == "api" and f"{asked.key}/".startswith("v1/")


def _refusal(error: Exception, environ: WSGIEnvironment, record: RequestRecord) -> S3Reply:
    shown = as_s3_error(error)
    kind = shown.code.code if isinstance(error, S3Error) else kind_of(error)
    note_error(error, shown.code.status, kind)
    if shown.code is ErrorCode.NO_SUCH_VERSION and not isinstance(error, VersionNotFound):
        _LOGGER.warning("the bytes of an object are missing: %s", error)
    elif shown.code in _BODY_CODES:
        _LOGGER.info("body refused: %s: %s", shown.code.code, shown)
    headers = {"Content-Type": XML_TYPE, **shown.headers}
    if shown.code.status == ErrorCode.SLOW_DOWN.status:
        headers["Retry-After"] = str(RETRY_SECONDS)
    resource = quote(environ["PATH_INFO"], safe="/", encoding="latin-1")
    body = error_body(shown, resource=resource, request_id=record.request_id)
    return S3Reply(shown.code.status, headers, body)


def _send(
    reply: S3Reply, environ: WSGIEnvironment, record: RequestRecord, start_response: StartResponse
) -> Iterable[bytes]:
    headers = {"x-amz-request-id": record.request_id, **reply.headers}
    body = reply.body
    if reply.status in _NO_BODY:
        body = b""
    elif isinstance(body, bytes):
        headers.setdefault("Content-Length", str(len(body)))
    start_response(f"{reply.status.value} {reply.status.phrase}", list(headers.items()))
    if environ["REQUEST_METHOD"] == "HEAD" and isinstance(body, bytes):
        return []
    return [body] if isinstance(body, bytes) else body
