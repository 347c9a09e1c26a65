"""Migration of lakeFS's users, groups and policies by the APIs of both servers.

Existing users, groups and policies are left unchanged, so migrations can be repeated. Secrets of
access keys are not readable, so every new user gets a new key, which is shown once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from lakebed.clients.http.errors import Refused
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.wire.auth import GroupCreation, Policy, UserCreation
from lakebed.wire.base import Page
from lakebed.wire.calls import BoundCall

P = ParamSpec("P")
ItemT = TypeVar("ItemT")

_CONFLICT: Final = 409
_NOT_THERE: Final = {401, 403, 404, 501}
"""Statuses of a lakeFS without users and groups."""


@dataclass
class MigratedUsers:
    """Result of a migration."""

    policies: int = 0
    groups: int = 0
    keys: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, access key id and secret of each new user."""
    problems: list[str] = field(default_factory=list)
    """Requests that failed, each with the reason."""


def migrate_users(source: Client, target: Client) -> MigratedUsers:
    """Copy the policies, groups and users of one server to another."""
    moved = MigratedUsers()
    mover, old, new = _Mover(moved), source.auth, target.auth
    for policy in mover.listed("policies", old.list_policies):
        body = Policy(id=policy.id, statement=policy.statement)
        moved.policies += mover.made(f"policies {policy.id}", new.create_policy, body)
    groups = mover.listed("groups", old.list_groups)
    for group in groups:
        moved.groups += mover.made(
            f"groups {group.id}", new.create_group, GroupCreation(id=group.id)
        )
        path = f"groups/{group.id}/policies"
        for policy in mover.listed(path, old.list_group_policies, group.id):
            mover.made(f"{path}/{policy.id}", new.attach_to_group, group.id, policy.id)
    for user in mover.listed("users", old.list_users):
        if mover.made(f"users {user.id}", new.create_user, UserCreation(id=user.id)):
            key = new.create_credentials(user.id)
            moved.keys.append((user.id, key.access_key_id, key.secret_access_key))
        path = f"users/{user.id}/policies"
        for policy in mover.listed(path, old.list_user_policies, user.id):
            mover.made(f"{path}/{policy.id}", new.attach_to_user, user.id, policy.id)
    for group in groups:
        path = f"groups/{group.id}/members"
        for member in mover.listed(path, old.list_members, group.id):
            mover.made(f"{path}/{member.id}", new.add_member, group.id, member.id)
    return moved


class _Mover:
    def __init__(self, moved: MigratedUsers) -> None:
        self._moved = moved

    def listed(
        self, name: str, call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
    ) -> list[ItemT]:
        """Return the items of a listing, or none if lakeFS does not support the listing."""
        try:
            return list(list_items(call, *args, **kwargs))
        except Refused as error:
            if error.status not in _NOT_THERE:
                raise
            self._moved.problems.append(f"lakeFS cannot list {name}: {error}")
            return []

    def made(self, name: str, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Create or attach an item; return whether it is new."""
        try:
            call(*args, **kwargs)
        except Refused as error:
            if error.status != _CONFLICT:
                self._moved.problems.append(f"{name}: {error}")
            return False
        return True
