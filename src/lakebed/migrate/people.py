"""Users, groups and policies of lakeFS, made again in Lakebed: from one API to the other.

What is there already stays as it is, so this can be run again. Secrets of access keys cannot be
read, so every user who is new here gets a new key, which is shown once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from lakebed.client.errors import Refused
from lakebed.client.http import Client
from lakebed.client.paging import list_items

_CONFLICT: Final = 409
_NOT_THERE: Final = {401, 403, 404, 501}
"""What a lakeFS without users and groups answers."""


@dataclass
class MovedPeople:
    """What was made."""

    policies: int = 0
    groups: int = 0
    keys: list[tuple[str, str, str]] = field(default_factory=list)
    """Of each new user: the name, the access key id and the secret."""
    problems: list[str] = field(default_factory=list)
    """What Lakebed refused, each with the reason."""


def move_people(source: Client, target: Client) -> MovedPeople:
    """Make the policies, groups and users of one server on another.

    Raises:
        ClientError: A server did not answer.
    """
    moved = MovedPeople()
    mover = _Mover(source, target, moved)
    for policy in mover.listed("policies"):
        body = {"id": policy["id"], "statement": policy["statement"]}
        moved.policies += mover.make("policies", body)
    for group in mover.listed("groups"):
        moved.groups += mover.make("groups", {"id": group["id"]})
        mover.attach_policies("groups", group["id"])
    for user in mover.listed("users"):
        name = user["id"]
        if mover.make("users", {"id": name}):
            key = target.call("POST", "auth", "users", name, "credentials")
            moved.keys.append((name, key["access_key_id"], key["secret_access_key"]))
        mover.attach_policies("users", name)
    for group in mover.listed("groups"):
        for member in mover.listed("groups", group["id"], "members"):
            mover.put("groups", group["id"], "members", member["id"])
    return moved


class _Mover:
    def __init__(self, source: Client, target: Client, moved: MovedPeople) -> None:
        self._source = source
        self._target = target
        self._moved = moved

    def listed(self, *path: str) -> Iterable[dict[str, Any]]:
        """Return what lakeFS lists; nothing, if it has no such thing."""
        try:
            return list(list_items(self._source, "auth", *path))
        except Refused as error:
            if error.status not in _NOT_THERE:
                raise
            self._moved.problems.append(f"lakeFS does not list {'/'.join(path)}: {error}")
            return []

    def make(self, kind: str, body: dict[str, Any]) -> bool:
        """Make something; return whether it was not there yet."""
        try:
            self._target.call("POST", "auth", kind, body=body)
        except Refused as error:
            if error.status != _CONFLICT:
                self._moved.problems.append(f"{kind} {body['id']}: {error}")
            return False
        return True

    def attach_policies(self, kind: str, name: str) -> None:
        """Attach to a user or a group the policies that it has in lakeFS."""
        for policy in self.listed(kind, name, "policies"):
            self.put(kind, name, "policies", policy["id"])

    def put(self, *path: str) -> None:
        """Attach a policy, or add a member."""
        try:
            self._target.call("PUT", "auth", *path)
        except Refused as error:
            if error.status != _CONFLICT:
                self._moved.problems.append(f"{'/'.join(path)}: {error}")
