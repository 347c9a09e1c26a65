"""The permissions of a group as one word, for clients without support for policies.

A word stands for the policies of one of the predefined groups. Setting it replaces these policies
of a group; other policies are unchanged and not shown.
"""

from typing import Final

from lakebed.auth.policy.defaults import BASE_GROUPS
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Routes, iam
from lakebed.server.http.errors import BadRequest
from lakebed.wire.auth import ACL, AuthAPI

routes = Routes()

_WORDS: Final = {
    "Read": frozenset(BASE_GROUPS["Viewers"]),
    "Write": frozenset(BASE_GROUPS["Developers"]),
    "Super": frozenset(BASE_GROUPS["SuperUsers"]),
    "Admin": frozenset(BASE_GROUPS["Admins"]),
}
_ALL: Final = frozenset[str]().union(*_WORDS.values())


@routes.add(AuthAPI.get_acl, iam("ReadGroup", "group/{group}"))
def get_acl(request: ApiRequest, group: str) -> ACL:
    """Return the word for a group's permissions."""
    attached = _attached(request, group)
    if not attached:
        return ACL(permission="")
    for word, policies in _WORDS.items():
        if attached == policies:
            return ACL(permission=word)
    raise BadRequest(f"no word stands for the policies of {group}: list the policies instead")


@routes.add(AuthAPI.set_acl, iam("AttachPolicy", "group/{group}"))
def set_acl(request: ApiRequest, group: str, body: ACL) -> None:
    """Set a group's permissions to those of a word."""
    wanted = _WORDS[one_of(body.permission, _WORDS, "permission")]
    attached = _attached(request, group)
    relations = request.services.auth.group_policies
    for policy in wanted - attached:
        relations.add(group, policy)
    for policy in attached - wanted:
        relations.remove(group, policy)


def _attached(request: ApiRequest, group: str) -> frozenset[str]:
    """Return the group's policies that occur in words."""
    service = request.services.auth
    unique_id = service.groups.get(group).unique_id
    return _ALL & {policy.id for policy in service.group_policies.all_targets_of(group, unique_id)}
