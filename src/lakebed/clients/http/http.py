"""The HTTP client: requests under `/api/v1`, with credentials and explained errors.

A `RetryPolicy` decides which requests are retried, and for how long. By default, only reads are
retried, and only if a busy server sends `Retry-After`: the outcome of a write must be known.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from lakebed import __version__
from lakebed.base.invalid import explain_json
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.clients.http import traffic
from lakebed.clients.http.errors import (
    InvalidName,
    NeverReached,
    Refused,
    UnexpectedAnswer,
    Unreachable,
)
from lakebed.clients.http.retry import PATIENT_READS, Retries, RetryPolicy
from lakebed.clients.http.settings import ClientSettings
from lakebed.wire import calls as wire
from lakebed.wire.base import ErrorBody

if TYPE_CHECKING:  # a command needs only a few of them
    from lakebed.wire.actions import ActionsAPI
    from lakebed.wire.auth import AuthAPI, PrincipalsAPI
    from lakebed.wire.config import ConfigAPI, SetupAPI
    from lakebed.wire.garbage import GarbageAPI
    from lakebed.wire.imports import ImportsAPI
    from lakebed.wire.metadata import MetadataAPI
    from lakebed.wire.objects import ObjectsAPI
    from lakebed.wire.pulls import PullsAPI
    from lakebed.wire.purges import PurgesAPI
    from lakebed.wire.refs import BranchesAPI, CommitsAPI, RefsAPI, TagsAPI
    from lakebed.wire.repositories import RepositoriesAPI
    from lakebed.wire.staging import PartsAPI, StagingAPI
from lakebed.wire.config import SetupState

AnswerT = TypeVar("AnswerT")

# Texts of OpenSSL's versions about a server that answers in plain HTTP.
_NO_TLS: Final = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|record layer failure")
_JSON: Final = {"Content-Type": "application/json"}
_LOGGER: Final = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 900.0
"""A large commit or merge takes minutes, and a timeout would not stop the server's work."""
_TRANSFER_SECONDS: Final = 60.0
"""The longest pause within a transfer."""

CONNECTIONS_MAX: Final = 100
_LIMITS: Final = httpx.Limits(
    max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
)
# A hook sees the headers that httpx adds.
_HOOKS: Final = {"request": [traffic.show_request]}


ResourceT = TypeVar("ResourceT", bound=wire.Resource)


class _Of(Generic[ResourceT]):
    """Descriptor that imports a client's operations on first use."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __set_name__(self, owner: type["Client"], name: str) -> None:
        self._name = name

    def __get__(self, client: "Client", owner: type["Client"]) -> ResourceT:
        module = import_module(f"lakebed.wire.{self._module}")
        resource: ResourceT = getattr(module, f"{self._name.title()}API")(client.send)
        client.__dict__[self._name] = resource
        return resource


@dataclass(frozen=True, slots=True)
class FullAnswer(Generic[AnswerT]):
    """The decoded body and the headers of a response."""

    value: AnswerT
    headers: Mapping[str, str]


class Client:
    """Client of a server for a single user. Thread-safe."""

    actions: "_Of[ActionsAPI]" = _Of("actions")
    auth: "_Of[AuthAPI]" = _Of("auth")
    branches: "_Of[BranchesAPI]" = _Of("refs")
    commits: "_Of[CommitsAPI]" = _Of("refs")
    config: "_Of[ConfigAPI]" = _Of("config")
    garbage: "_Of[GarbageAPI]" = _Of("garbage")
    imports: "_Of[ImportsAPI]" = _Of("imports")
    metadata: "_Of[MetadataAPI]" = _Of("metadata")
    objects: "_Of[ObjectsAPI]" = _Of("objects")
    parts: "_Of[PartsAPI]" = _Of("staging")
    principals: "_Of[PrincipalsAPI]" = _Of("auth")
    pulls: "_Of[PullsAPI]" = _Of("pulls")
    purges: "_Of[PurgesAPI]" = _Of("purges")
    refs: "_Of[RefsAPI]" = _Of("refs")
    repositories: "_Of[RepositoriesAPI]" = _Of("repositories")
    setup: "_Of[SetupAPI]" = _Of("config")
    staging: "_Of[StagingAPI]" = _Of("staging")
    tags: "_Of[TagsAPI]" = _Of("refs")

    def __init__(
        self,
        settings: ClientSettings,
        *,
        retry_policy: RetryPolicy = PATIENT_READS,
        runtime: Runtime | None = None,
    ) -> None:
        self.endpoint = settings.endpoint
        self._retry_policy = retry_policy
        self._runtime = runtime or ThreadRuntime()
        self._has_responded = False
        self._http = httpx.Client(
            base_url=f"{settings.endpoint}/api/v1/",
            # Initial setup is requested without credentials.
            auth=(settings.access_key_id, settings.secret_access_key)
            if settings.access_key_id
            else None,
            headers={"User-Agent": f"lakebed/{__version__}", "Accept": "application/json"},
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            verify=checks_certificates(settings.endpoint),
            event_hooks=_HOOKS,
            limits=_LIMITS,
        )

    @cached_property
    def _storage(self) -> httpx.Client:
        """Client without credentials, for presigned URLs."""
        return httpx.Client(
            timeout=httpx.Timeout(_TRANSFER_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            event_hooks=_HOOKS,
            limits=_LIMITS,
        )

    def close(self) -> None:
        self._http.close()
        if "_storage" in self.__dict__:
            self._storage.close()

    def send(self, request: wire.WireRequest[AnswerT]) -> AnswerT:
        """Send a request; return the decoded response.

        Raises:
            Refused: The server responded with an error.
            Unreachable: The server did not respond; the outcome of a change is unknown.
            UnexpectedAnswer: The response is not from a lakeFS server.
            InvalidName: A segment of the path is invalid.
        """
        return self.ask(request).value

    def ask(
        self, request: wire.WireRequest[AnswerT], *, headers: Mapping[str, str] | None = None
    ) -> FullAnswer[AnswerT]:
        """Send a request with additional headers; return the decoded response and its headers."""
        with self.open(request, headers=headers) as response:
            return self.answer(request, response)

    def answer(
        self, request: wire.WireRequest[AnswerT], response: httpx.Response
    ) -> FullAnswer[AnswerT]:
        """Decode the response to an opened request; raises like `send`."""
        response.read()
        traffic.show_answer_body(response)
        value: AnswerT = _value(response, request.answer)
        return FullAnswer(value, response.headers)

    @contextmanager
    def open(
        self,
        request: wire.WireRequest[AnswerT],
        *,
        content: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request; yield the response before its body is read.

        Raises:
            Refused: The server responded with an error.
            Unreachable: The server did not respond, or the connection broke.
            InvalidName: A segment of the path is invalid.
        """
        has_body = request.body is not None
        sent = self._http.build_request(
            request.endpoint.method,
            _joined(request.segments),
            params=request.query,
            content=request.body if has_body else content,
            headers={**(_JSON if has_body else {}), **(headers or {})},
            timeout=httpx.Timeout(_TRANSFER_SECONDS, connect=_CONNECT_SECONDS, pool=None)
            if request.endpoint.transfer
            else httpx.USE_CLIENT_DEFAULT,
        )
        with self._answered(self._http, sent) as response:
            yield response

    @contextmanager
    def stream_url(
        self,
        method: str,
        url: str,
        *,
        content: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Request a presigned URL, without credentials; raises like `open`."""
        request = self._storage.build_request(
            method, url, content=content, headers=dict(headers or {})
        )
        with self._answered(self._storage, request) as response:
            yield response

    @contextmanager
    def _answered(self, http: httpx.Client, request: httpx.Request) -> Iterator[httpx.Response]:
        """Send a request, raise its error, and close the response."""
        with self._explained(request.method):
            response = self._send(http, request)
            try:
                if not response.is_success:
                    response.read()
                    traffic.show_answer_body(response)
                    raise _refusal(response, self.endpoint if http is self._http else "")
                yield response
            finally:
                response.close()

    def _send(self, http: httpx.Client, request: httpx.Request) -> httpx.Response:
        """Send a request, retrying according to the policy; return the last response."""
        retries = Retries(self._retry_policy, request.method, self._runtime)
        while True:
            try:
                response = http.send(request, stream=True)
            except httpx.ReadTimeout:
                raise  # the server may still be working on the request
            except httpx.TransportError as error:
                pause = retries.pause_after_break(has_responded=self._has_responded)
                if pause is None:
                    raise
                reason = _reason(error)
            else:
                self._has_responded = True
                traffic.show_answer(response)
                _LOGGER.debug("%s %s: %d", request.method, request.url.path, response.status_code)
                after = response.headers.get("Retry-After", "")
                pause = retries.pause_after_answer(response.status_code, after)
                if pause is None:
                    return response
                response.close()
                reason = f"status {response.status_code}"
            _LOGGER.warning(
                "%s %s: %s; attempt %d follows in %.1f s",
                request.method,
                request.url.path,
                reason,
                retries.tries,
                pause,
            )
            self._runtime.sleep(pause)

    @contextmanager
    def _explained(self, method: str) -> Iterator[None]:
        doubt = "" if method in {"GET", "HEAD"} else "; the outcome of the change is unknown"
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            kind = Unreachable if self._has_responded else NeverReached
            if _NO_TLS.search(str(error)):
                raise kind(
                    f"{self.endpoint} does not answer by TLS: if the server has no certificate, use"
                    f" the endpoint {re.sub('^https', 'http', self.endpoint)}"
                ) from None
            raise kind(
                f"cannot reach {self.endpoint} ({_reason(error)}): check that the server is running"
            ) from None
        except httpx.TimeoutException:
            raise Unreachable(f"{self.endpoint} did not respond in time{doubt}") from None
        except httpx.HTTPError as error:
            raise Unreachable(
                f"the connection to {self.endpoint} broke ({_reason(error)}){doubt}"
            ) from None


def checks_certificates(endpoint: str) -> bool:
    """Whether the endpoint uses TLS.

    Loading the trusted authorities takes longer than most requests, so it is skipped without TLS.
    Redirects are not followed, and presigned URLs use another client.
    """
    return not endpoint.lower().startswith("http:")


def _value(response: httpx.Response, kind: Any) -> Any:
    """Decode the body of a response: text and bytes unchanged, otherwise JSON."""
    if kind is str:
        return response.text
    if kind is bytes:
        return response.content
    if kind is None and not response.content:
        return None
    try:
        value = msgspec.json.decode(response.content, type=kind or msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # Not for a page that is no JSON.
        is_field = isinstance(error, msgspec.ValidationError)
        reason = f" ({explain_json(error, kind, response.content)})" if is_field else ""
        raise UnexpectedAnswer(
            f"the response of {response.url.copy_with(query=None)} is not from a lakeFS server"
            f"{reason}: check the endpoint and the version of the server"
        ) from None
    return None if kind is None else value


def _joined(path: tuple[str, ...]) -> str:
    """Build the path of a request from its segments."""
    for segment in path:
        if segment in {"", ".", ".."}:
            raise InvalidName(segment)
    return "/".join(quote(segment, safe="") for segment in path)


def _refusal(response: httpx.Response, endpoint: str) -> Refused:
    """Build the error for a response; `endpoint` is empty for presigned URLs."""
    advice = ""
    try:
        body = msgspec.json.decode(response.content, type=ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = ErrorBody()
        if endpoint and response.is_client_error and response.content:
            advice = f", but not by a lakeFS server: check the endpoint {endpoint}"
    # Lakebed's `detail` says more than lakeFS's `message`.
    message = body.detail or body.message
    message = message or response.reason_phrase.lower() or "the server gave no reason"
    return Refused(response.status_code, message + advice, body)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_SECONDS: Final = 30.0


def waits_for_setup(endpoint: str) -> bool:
    """Return whether a local server needs its initial setup; False if it does not respond."""
    try:
        answer = httpx.get(
            f"{endpoint}/api/v1/setup_lakefs",
            trust_env=False,
            # The certificate is for another name, and no secret is sent.
            verify=False,  # noqa: S501
            timeout=_SECONDS,
        )
        return msgspec.json.decode(answer.content, type=SetupState).state == "not_initialized"
    except (httpx.HTTPError, ValueError):
        return False
