"""One door to the server: requests under `/api/v1`, with credentials, and errors that explain.

Reads that the server was too busy for (429, 503) are repeated when it says when to come back, a few
times and for a limited time in all. Nothing else is: whoever changed something must hear what
became of it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx

from lakebed import __version__
from lakebed.client.errors import Misuse, Refused, UnexpectedAnswer, Unreachable
from lakebed.client.settings import ClientSettings

Query = Mapping[str, str | int | bool | list[str] | None]

_BUSY: Final = (429, 503)
_TRIES_MAX: Final = 5
_WAIT_SECONDS_MAX: Final = 30.0
"""How long a read may wait for a busy server, all its tries together."""

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 900.0
"""A large commit or merge takes minutes, and ending the wait would not end the work."""
_TRANSFER_SECONDS: Final = 60.0
"""How long a transfer of bytes may stand still."""

CONNECTIONS_MAX: Final = 100


class Client:
    """Requests to one server as one user. Threads may share it."""

    def __init__(
        self, settings: ClientSettings, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.endpoint = settings.endpoint
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=f"{settings.endpoint}/api/v1/",
            auth=(settings.access_key_id, settings.secret_access_key),
            headers={"User-Agent": f"lakebed/{__version__}", "Accept": "application/json"},
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
            ),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, *path: str, query: Query | None = None) -> Any:
        """The JSON that the server answers with.

        Raises:
            Refused: The server says no.
            Unreachable: It says nothing.
            UnexpectedAnswer: It says something that a lakeFS server does not say.
        """
        return self.call("GET", *path, query=query)

    def call(self, method: str, *path: str, query: Query | None = None, body: Any = None) -> Any:
        """Send a request with a JSON body, if any; the JSON of the answer, or None without one.

        Raises:
            Refused: The server says no.
            Unreachable: It says nothing; a change may or may not have been made.
            UnexpectedAnswer: It says something that a lakeFS server does not say.
        """
        return decoded(self.exchange(method, *path, query=query, body=body))

    def exchange(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Like `call`, for callers that want the headers of the answer too."""
        with self.stream(method, *path, query=query, json=body, headers=headers) as response:
            response.read()
            return response

    @contextmanager
    def stream(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        json: Any = None,
        content: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        transfer: bool = False,
    ) -> Iterator[httpx.Response]:
        """Send a request and look at its answer before the body is there.

        Args:
            method: GET, POST and so on.
            path: The segments of the path, as they are; they get encoded here.
            query: What stands behind the question mark; None is left out.
            json: A body to send as JSON.
            content: A body to send as it is.
            headers: Further headers.
            transfer: The bytes of an object go over; they may take long but not stand still.

        Raises:
            Refused: The server says no.
            Unreachable: It says nothing, or the connection broke.
        """
        request = self._http.build_request(
            method,
            _joined(path),
            params=_query(query or {}),
            json=json,
            content=content,
            headers=dict(headers or {}),
            timeout=httpx.Timeout(_TRANSFER_SECONDS, connect=_CONNECT_SECONDS, pool=None)
            if transfer
            else httpx.USE_CLIENT_DEFAULT,
        )
        with self._explained(method):
            response = self._sent(request)
            try:
                if not response.is_success:
                    response.read()
                    raise _refusal(response)
                yield response
            finally:
                response.close()

    def _sent(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request; to a read, the answer when the server is less busy."""
        patience = _WAIT_SECONDS_MAX
        for _ in range(_TRIES_MAX - 1):
            response = self._http.send(request, stream=True)
            wait = _wait_seconds(response)
            if request.method != "GET" or wait is None or wait > patience:
                return response
            response.close()
            patience -= wait
            self._sleep(wait)
        return self._http.send(request, stream=True)

    @contextmanager
    def _explained(self, method: str) -> Iterator[None]:
        """Turn what can go wrong on the way into words."""
        doubt = "" if method in {"GET", "HEAD"} else "; the change may or may not have been made"
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"cannot reach {self.endpoint} ({_reason(error)}): is the server running there?"
            ) from None
        except httpx.TimeoutException:
            raise Unreachable(f"{self.endpoint} did not answer in time{doubt}") from None
        except httpx.HTTPError as error:
            raise Unreachable(
                f"the connection to {self.endpoint} broke ({_reason(error)}){doubt}"
            ) from None


def decoded(response: httpx.Response) -> Any:
    """The JSON of an answer, None if it is empty.

    Raises:
        UnexpectedAnswer: It is something else.
    """
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise UnexpectedAnswer(
            f"{response.url.copy_with(query=None)} does not answer as a lakeFS server does:"
            " check the endpoint"
        ) from None


def _joined(path: tuple[str, ...]) -> str:
    """The path of a request from its segments, each of them whole.

    Raises:
        Misuse: A segment would mean another place.
    """
    for segment in path:
        if segment in {"", ".", ".."}:
            raise Misuse(f"{segment!r} is not a name")
    return "/".join(quote(segment, safe="") for segment in path)


def _query(query: Query) -> dict[str, str | int | bool | list[str]]:
    return {name: value for name, value in query.items() if value is not None}


def _wait_seconds(response: httpx.Response) -> float | None:
    """How long a busy server wants to be left alone; None if it is not busy or does not say."""
    after = response.headers.get("Retry-After", "")
    return float(after) if response.status_code in _BUSY and after.isdecimal() else None


def _refusal(response: httpx.Response) -> Refused:
    try:
        body = response.json()
    except ValueError:
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, str) or not message:
        message = response.reason_phrase.lower() or "the server gave no reason"
    return Refused(response.status_code, " ".join(message.split()), body)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
