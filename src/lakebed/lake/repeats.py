"""Repeats of a conditional write whose reply was lost.

A client that gets no answer, or a 5xx, sends its request again. If the first attempt took effect,
the condition of the second is false by the client's own entry: "only if absent" would be refused
though the bytes of the client stand. Such a repeat is answered with success and writes nothing.

*How a repeat is recognised.* The SDKs of AWS send the same random id with all attempts of a request
(``amz-sdk-invocation-id``). A digest of it, of the principal, the place and the bytes is kept in
the metadata of the entry, so every worker and server finds it, before and after a commit. An entry
with this digest was staged by another attempt of the very same request. A conditional write that
replaces an entry takes its digests along, up to `KEPT`: of two clients that count by ``If-Match``,
the first is told that its number was written, though the second has replaced it. A completed upload
and a link need no id: their address was given out for one request (`stager.or_done`).

*Why nothing else is taken for a repeat.* Two clients with the same credentials may put the same
bytes (a lock file, an empty object). If the first is told "outcome unknown" and the second then
asks, their requests are the same but for the id. To answer one of them with success, even only
once, would tell the second that it created a key that existed before it asked, while the first may
act as an owner whose reply was lost: may read its own bytes, or delete them.

*What is not recognised:* a repeat after the entry was replaced by a write without a condition, by a
completed upload or a link, or by `KEPT` others; after it was deleted; or after a commit that found
that it changes nothing. Such a repeat is judged by its condition, as any new request.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Final

from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition, check_condition
from lakebed.formats import Entry
from lakebed.lake.entry_metadata import for_requests, requests_of

KEPT: Final = 32
"""The digests of so many requests are kept with an entry: its own, and those before it."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A request with all its attempts."""

    principal: str
    """The unique id of the user."""
    id: str = field(repr=False)
    """As the client sent it: the same with each attempt, and with no other request."""

    def digest(self, repository: RepositoryID, branch: BranchID, path: bytes) -> str:
        """Return the digest of the request to write to a path."""
        digest = hashlib.sha256()
        texts = (self.principal, self.id, repository, branch)
        for part in (*(text.encode() for text in texts), path):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()[:20]


def unless_repeated(condition: Condition, digest: str | None) -> Condition:
    """Return a condition that also holds where another attempt of a request took effect.

    For a test before the bytes are known: they decide whether it was the same request.
    """
    if digest is None:
        return condition

    def holds(found: Entry | None) -> bool:
        return any(each.startswith(digest) for each in requests_of(found)) or condition(found)

    return holds


class Attempt:
    """An attempt of a conditional request: the entry to stage over the one that is there, if any.

    It stages nothing if another attempt of the request took effect. An entry that is found took
    effect after its own condition was found to hold. So did the requests whose digests it took
    along from the entries before it.
    """

    def __init__(self, entry: Entry, condition: Condition, digest: str | None) -> None:
        """Prepare to stage an entry; `digest` is that of the request, if its client sent an id."""
        self._entry = entry
        self._condition = condition
        self._own = [] if digest is None else [digest + _digest_of_bytes(entry)]
        self.staged: Entry | None = None
        """The entry that was staged, by this attempt or another; None: it was replaced since."""

    def __call__(self, found: Entry | None) -> Entry | None:
        """Return the entry to stage, or None if the request took effect already.

        Raises:
            PreconditionFailed: The condition does not hold, for another reason.
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


def _digest_of_bytes(entry: Entry) -> str:
    return hashlib.sha256(f"{entry.size} {entry.checksum}".encode()).hexdigest()[:8]
