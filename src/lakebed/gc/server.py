"""The server, as far as garbage collection needs it."""

from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from lakebed.formats.gc_files import GCMark, GCRunID
from lakebed.gc.errors import ServerError
from lakebed.runtime import Runtime, ThreadRuntime

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 900.0

_PATIENCE_SECONDS: Final = 60.0
"""How long a server may be away: about as long as it takes to start again."""
_PAUSE_SECONDS: Final = 0.5
_PAUSE_SECONDS_MAX: Final = 5.0
_BUSY: Final = frozenset({429, 502, 503, 504})


class Server:
    """Asks a server to prepare runs of one repository."""

    def __init__(
        self, endpoint: str, repository: str, *, access_key_id: str, secret_access_key: str
    ) -> None:
        self._repository = quote(repository, safe="")
        self._runtime: Runtime = ThreadRuntime()
        self._was_there = False
        self._http = httpx.Client(
            base_url=f"{endpoint.rstrip('/')}/api/v1/",
            auth=(access_key_id, secret_access_key),
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def storage_namespace(self) -> str:
        """Return where the repository's objects are.

        Raises:
            ServerError: The server refused, or did not answer.
        """
        return str(self._ask("GET", "")["storage_namespace"])

    def mark(self) -> tuple[GCMark, Path | None]:
        """Let the server write a mark; return it, and the folder of a storage on its own disk.

        Raises as `storage_namespace`.
        """
        answer = self._ask("POST", "/gc/mark")
        mark = GCMark(answer["storage_namespace"], answer["unique_id"], answer["nonce"])
        root = answer.get("local_root")
        return mark, None if root is None else Path(root)

    def metarange(self, ref: str) -> str:
        """Return the metarange of the commit at a ref; raises as `storage_namespace`."""
        query = {"amount": "1"}
        found = self._ask("GET", f"/refs/{quote(ref, safe='')}/commits", query)
        return str(found["results"][0]["meta_range_id"])

    def min_age_seconds(self) -> int:
        """Return the least age of garbage; raises as `storage_namespace`."""
        answer = self._request("GET", "config/garbage-collection", None, None)
        return int(answer["grace_period"])

    def now(self) -> float:
        """Return what time it is there, to the second; raises as `storage_namespace`."""
        response = self._send("GET", "healthcheck", None, None)
        return parsedate_to_datetime(response.headers["Date"]).timestamp()

    def prepare(self, unique_id: str) -> GCRunID:
        """Let the server write down all that is in use; raises as `storage_namespace`.

        Pages of a run are asked for with what the page before gave; asking again for one is fine.
        """
        query = {"unique_id": unique_id}
        page = self._ask("POST", "/gc/prepare_uncommited", query, {})
        while token := page.get("continuation_token"):
            body = {"continuation_token": token}
            page = self._ask("POST", "/gc/prepare_uncommited", query, body)
        run_id = GCRunID(page["run_id"])
        self.finish(unique_id, run_id)
        # Again: if the repository is still there now, it was there while its commits were read.
        self.finish(unique_id, run_id)
        return run_id

    def finish(self, unique_id: str, run_id: GCRunID) -> None:
        """Let the server write down the commits of a run; what is written is left as it is.

        Raises:
            ServerError: Also if this creation of the repository is not there any more.
        """
        self._ask("POST", "/gc/prepare_commits", {"unique_id": unique_id, "run_id": run_id})

    def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return self._request(method, f"repositories/{self._repository}{path}", query, body)

    def _request(
        self, method: str, path: str, query: dict[str, str] | None, body: dict[str, Any] | None
    ) -> dict[str, Any]:
        answer = _json(self._send(method, path, query, body))
        if not isinstance(answer, dict):
            raise ServerError(f"the server answered {method} {path} with something unexpected")
        return answer

    def _send(
        self, method: str, path: str, query: dict[str, str] | None, body: dict[str, Any] | None
    ) -> httpx.Response:
        """Send a request, patiently: all that a run asks for may be asked for again.

        A server that was never there is not waited for: its address may be wrong.
        """
        patience = _PATIENCE_SECONDS if self._was_there else 0.0
        until = self._runtime.monotonic() + patience
        pause = _PAUSE_SECONDS
        while True:
            is_last = self._runtime.monotonic() + pause >= until
            try:
                response = self._http.request(method, path, params=query, json=body)
            except httpx.HTTPError as error:
                if is_last or isinstance(error, httpx.ReadTimeout):
                    raise ServerError(f"the server does not answer: {error}") from error
            else:
                self._was_there = True
                if is_last or response.status_code not in _BUSY:
                    return _checked(response, method, path)
            self._runtime.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)


def _checked(response: httpx.Response, method: str, path: str) -> httpx.Response:
    if not response.is_success:
        answer = _json(response)
        reason = answer.get("message") if isinstance(answer, dict) else None
        raise ServerError(f"the server refused {method} {path}: {reason or response.reason_phrase}")
    return response


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
