"""Repeats of conditional writes whose reply was lost.

A client that receives no reply, or a 5xx, retries its request. If the first attempt took effect,
the condition of the retry fails because of the client's own entry: "only if absent" would be
refused although the client's bytes were written. Such a repeat succeeds and writes nothing.

*Detecting a repeat.* The AWS SDKs send the same random id with all attempts of a request
(``amz-sdk-invocation-id``). A digest of id, principal, path and bytes is stored in the metadata of
the entry, so that every worker and server finds it, before and after a commit. An entry with the
digest was staged by another attempt of the same request. A conditional write that replaces an entry
copies its digests, up to `KEPT`: of two clients that count by ``If-Match``, the first learns that
its number was written, although the second has replaced it. Completed uploads and links need no id:
their address was issued for one request (`uploads.or_same_entry`).

*Why the id is required.* Two clients with the same credentials may put the same bytes (a lock file,
an empty object). If the first gets "outcome unknown" and the second then sends its request, the two
differ only in the id. Success for both, even once, would tell the second that it created a key that
already existed, while the first may act as an owner whose reply was lost: read or delete its bytes.

*Not detected:* a repeat after the entry was replaced by an unconditional write, a completed upload,
a link, or more than `KEPT` conditional writes; after it was deleted; or after a commit that found
no change. Such a repeat is judged by its condition, as a new request.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Final

from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition, check_condition
from lakebed.formats import Entry
from lakebed.lake.entry_metadata import for_requests, requests_of

KEPT: Final = 32
"""Number of request digests stored with an entry: its own, and earlier ones."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A request, common to all of its attempts."""

    principal: str
    """Unique id of the user."""
    id: str = field(repr=False)
    """The client's id of the request: equal for all attempts, and unique to the request."""

    def digest(self, repository: RepositoryID, branch: BranchID, path: bytes) -> str:
        digest = hashlib.sha256()
        texts = (self.principal, self.id, repository, branch)
        for part in (*(text.encode() for text in texts), path):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()[:20]


def unless_repeated(condition: Condition, digest: str | None) -> Condition:
    """Return a condition that also holds if another attempt of the request took effect.

    For an early check, before the bytes are known. The final check compares the bytes too.
    """
    if digest is None:
        return condition

    def holds(found: Entry | None) -> bool:
        return any(each.startswith(digest) for each in requests_of(found)) or condition(found)

    return holds


class Attempt:
    """An attempt of a conditional request: decides the entry to stage from the existing one.

    Stages nothing if another attempt of the request took effect: the existing entry has the
    request's digest, its own or copied from the entries that it replaced.
    """

    def __init__(self, entry: Entry, condition: Condition, digest: str | None) -> None:
        """`digest` is the digest of the request, if its client sent an id."""
        self._entry = entry
        self._condition = condition
        of_bytes = hashlib.sha256(f"{entry.size} {entry.checksum}".encode()).hexdigest()[:8]
        self._own = [] if digest is None else [digest + of_bytes]
        self.staged: Entry | None = None
        """The entry staged by this or another attempt, or None if it has since been replaced."""

    def __call__(self, found: Entry | None) -> Entry | None:
        """Return the entry to stage, or None if the request already took effect.

        Raises `PreconditionFailed` if the condition does not hold.
        """
        kept = requests_of(found)
        if not set(self._own).isdisjoint(kept):
            self.staged = found if kept[:1] == self._own else None
            return None
        check_condition(self._condition, self._entry.key, found)
        requests = [*self._own, *kept][:KEPT]
        metadata = {**self._entry.metadata, **for_requests(requests)}
        self.staged = replace(self._entry, metadata=metadata)
        return self.staged
