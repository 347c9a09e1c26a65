"""What garbage collection asks a server for.

Every request of a run may be repeated, so a run waits while a server that was there starts again.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from lakebed.client.errors import UnexpectedAnswer
from lakebed.client.http import Client
from lakebed.client.retry import OUTLAST_RESTARTS
from lakebed.client.settings import ClientSettings, normal_endpoint
from lakebed.formats.gc_files import GCFile, GCFileKind, GCMark, GCRunID
from lakebed.leases import LeaseState


class Server:
    """Asks a server to prepare runs of one repository.

    All methods raise `lakebed.client.errors.ClientError`: the server refused, or did not answer.
    """

    def __init__(
        self, endpoint: str, repository: str, *, access_key_id: str, secret_access_key: str
    ) -> None:
        settings = ClientSettings(normal_endpoint(endpoint), access_key_id, secret_access_key)
        self._repository = repository
        self._client = Client(settings, retry_policy=OUTLAST_RESTARTS)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def storage_namespace(self) -> str:
        """Return where the repository's objects are."""
        return str(self._ask("GET")["storage_namespace"])

    def mark(self) -> tuple[GCMark, Path | None]:
        """Let the server write a mark; return it, and the folder of a storage on its own disk."""
        answer = self._ask("POST", "gc", "mark")
        mark = GCMark(
            answer["storage_namespace"],
            answer["unique_id"],
            answer["nonce"],
            answer.get("versions", "keep"),
        )
        root = answer.get("local_root")
        return mark, None if root is None else Path(root)

    def metarange(self, ref: str) -> str:
        """Return the metarange of the commit at a ref."""
        found = self._ask("GET", "refs", ref, "commits", query={"amount": "1"})
        return str(found["results"][0]["meta_range_id"])

    def min_age_seconds(self) -> int:
        """Return how old an object must be before it can be garbage."""
        path = ("config", "garbage-collection")
        return int(_record(self._client.get(*path), path)["grace_period"])

    def now(self) -> float:
        """Return the time of the server's clock, to the second."""
        response = self._client.exchange("GET", "healthcheck")
        return parsedate_to_datetime(response.headers["Date"]).timestamp()

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        """Let the server mark and expire commits by the rules of the repository; return counts."""
        query = {
            "unique_id": unique_id,
            "max_share": f"{max_share:g}",
            "dry_run": "true" if dry_run else "false",
        }
        return self._ask("POST", "gc", "expire", query=query)

    def prepare(self, unique_id: str) -> GCRunID:
        """Let the server write down all that is in use.

        Each page is asked for with the token of the page before; asking for one again is harmless.
        """
        page = self._prepare_page(unique_id, {})
        while token := page.get("continuation_token"):
            page = self._prepare_page(unique_id, {"continuation_token": token})
        run_id = GCRunID(page["run_id"])
        self.write_commits(unique_id, run_id)
        # If the repository is there now, it was there while its commits were read.
        self.check_still_there(unique_id, run_id)
        return run_id

    def write_commits(self, unique_id: str, run_id: GCRunID) -> None:
        """Let the server write down the commits of a run; if it has done so, nothing changes."""
        query = {"unique_id": unique_id, "run_id": run_id}
        self._ask("POST", "gc", "prepare_commits", query=query)

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        """Prove that this creation of the repository exists, and that we may still collect.

        Raises:
            Refused: The repository was deleted, or the permission was taken away.
        """
        # The server checks both before it sees that the commits are written already.
        self.write_commits(unique_id, run_id)

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        """Let the server write down the commits whose expiry frees objects."""
        query = {
            "unique_id": unique_id,
            "run_id": run_id,
            "since_us": str(since_us),
            "dry_run": str(dry_run).lower(),
        }
        found = self._ask("POST", "gc", "old_commits", query=query)["files"]
        return tuple(
            GCFile(each["name"], GCFileKind.OLD, each["rows"], each["content_id"]) for each in found
        )

    def take_lease(self, holder: str, over: str) -> LeaseState:
        """Take the lease of the repository, if it is free or has the mark `over`."""
        return self._lease({"holder": holder, "over": over})

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease of the repository, if this holder has it."""
        return self._lease({"holder": holder, "renew": True})

    def give_lease_back(self, holder: str, *, is_good: bool, next_us: int) -> None:
        """Give the lease back, and say how the run ended and when another is of use."""
        query = {"holder": holder, "good": str(is_good).lower(), "next_us": str(next_us)}
        path = ("repositories", self._repository, "gc", "lease")
        self._client.call("DELETE", *path, query=query)

    def _lease(self, body: dict[str, str | bool]) -> LeaseState:
        found = self._ask("POST", "gc", "lease", body=body)
        return LeaseState(found["holder"], found["mark"], float(found["seconds"]))

    def _prepare_page(self, unique_id: str, body: dict[str, str]) -> dict[str, Any]:
        # The API spells it so.
        path = ("gc", "prepare_uncommited")
        return self._ask("POST", *path, query={"unique_id": unique_id}, body=body)

    def _ask(
        self,
        method: str,
        *path: str,
        query: dict[str, str] | None = None,
        body: Mapping[str, str | bool] | None = None,
    ) -> dict[str, Any]:
        path = ("repositories", self._repository, *path)
        return _record(self._client.call(method, *path, query=query, body=body), path)


def _record(answer: object, path: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise UnexpectedAnswer(f"the answer to {'/'.join(path)} is not one of a lakeFS server")
    return answer
