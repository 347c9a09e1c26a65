"""Users, groups, policies, and their relations."""

from collections.abc import Callable
from typing import Final, TypedDict, TypeVar

from lakebed import auth as model
from lakebed.auth import Effect
from lakebed.auth.policy.defaults import BASE_GROUPS
from lakebed.server.api.pages import page_of
from lakebed.server.api.request import ApiRequest, one_of, seconds
from lakebed.server.api.routes import Access, Routes, iam
from lakebed.server.http.errors import BadRequest
from lakebed.wire import auth as wire
from lakebed.wire.base import Page, PageQuery
from lakebed.wire.config import CredentialsWithSecret

routes = Routes()

ItemT = TypeVar("ItemT")
WireT = TypeVar("WireT")

_ASKED_MAX: Final = 50
"""The maximum number of permissions to test in one request."""


class Window(TypedDict):
    """A range of a list."""

    prefix: str
    after: str
    amount: int


def wire_user(user: model.User) -> wire.User:
    """Return a user as the API's struct."""
    return wire.User(
        id=user.id,
        creation_date=seconds(user.created_us),
        friendly_name=user.friendly_name or None,
        email=user.email or None,
    )


def wire_group(group: model.Group) -> wire.Group:
    """Return a group as the API's struct."""
    return wire.Group(
        id=group.id,
        name=group.id,
        creation_date=seconds(group.created_us),
        description=group.description or None,
    )


def wire_policy(policy: model.Policy) -> wire.Policy:
    """Return a policy as the API's struct."""
    return wire.Policy(
        id=policy.id,
        creation_date=seconds(policy.created_us),
        statement=[
            wire.Statement(
                effect=each.effect.value,
                resource=each.resource,
                action=list(each.actions),
                condition=_condition(each),
            )
            for each in policy.statements
        ],
    )


def _condition(statement: model.Statement) -> dict[str, dict[str, list[str]]] | None:
    return {
        operator: {name: list(values) for name, values in fields.items()}
        for operator, fields in statement.condition.items()
    } or None


def wire_credential(credential: model.Credential) -> wire.Credentials:
    """Return a credential, without its secret."""
    return wire.Credentials(
        access_key_id=credential.access_key_id, creation_date=seconds(credential.created_us)
    )


def wire_new_credential(created: model.NewCredential) -> CredentialsWithSecret:
    """Return a new credential, with its secret."""
    return CredentialsWithSecret(
        access_key_id=created.access_key_id,
        secret_access_key=created.secret_access_key,
        creation_date=seconds(created.created_us),
    )


def _statements(body: wire.Policy) -> tuple[model.Statement, ...]:
    return tuple(
        model.Statement(
            effect=Effect(one_of(each.effect, (kind.value for kind in Effect), "effect")),
            actions=tuple(each.action),
            resource=each.resource,
            condition={
                operator: {name: tuple(values) for name, values in fields.items()}
                for operator, fields in (each.condition or {}).items()
            },
        )
        for each in body.statement
    )


def window(query: PageQuery) -> Window:
    """Return the requested range of a list."""
    return {"prefix": query.prefix, "after": query.after, "amount": query.limit}


def _page(
    found: model.AuthPage[ItemT], wire: Callable[[ItemT], WireT], name: Callable[[ItemT], str]
) -> Page[WireT]:
    last = name(found.items[-1]) if found.items else ""
    return page_of([wire(item) for item in found.items], has_more=found.has_more, last=last)


def _users(found: model.AuthPage[model.User]) -> Page[wire.User]:
    return _page(found, wire_user, lambda user: user.id)


def _groups(found: model.AuthPage[model.Group]) -> Page[wire.Group]:
    return _page(found, wire_group, lambda group: group.id)


def _policies(found: model.AuthPage[model.Policy]) -> Page[wire.Policy]:
    return _page(found, wire_policy, lambda policy: policy.id)


# Users


@routes.add(wire.AuthAPI.current_user, Access.SIGNED_IN)
def get_current_user(request: ApiRequest, query: wire.CurrentUserQuery) -> wire.CurrentUser:
    """Return the current user, and those of the given permissions that the user lacks."""
    user = wire_user(request.services.auth.users.get(request.identity.user_id))
    if len(query.may) > _ASKED_MAX:
        raise BadRequest(f"too many permissions in may: {len(query.may)}, at most {_ASKED_MAX}")
    return wire.CurrentUser(
        user=user, denied=[each for each in query.may if not _may(request, each)]
    )


def _may(request: ApiRequest, permission: str) -> bool:
    action, space, resource = permission.partition(" ")
    if not space:
        raise BadRequest(
            f"invalid permission '{permission}' in may: write it as <action> <resource>"
        )
    service = request.services.auth
    return bool(service.resource_filter(request.identity, request.context, action)(resource))


@routes.add(wire.AuthAPI.list_users, iam("ListUsers", "*"))
def list_users(request: ApiRequest, query: PageQuery) -> Page[wire.User]:
    """List the users."""
    return _users(request.services.auth.users.list(**window(query)))


@routes.add(wire.AuthAPI.create_user, iam("CreateUser", "user/{body.id}"))
def create_user(request: ApiRequest, body: wire.UserCreation) -> wire.User:
    """Create a user without permissions."""
    return wire_user(request.services.auth.users.create(body.id))


@routes.add(wire.AuthAPI.get_user, iam("ReadUser", "user/{user}"))
def get_user(request: ApiRequest, user: str) -> wire.User:
    """Return a user."""
    return wire_user(request.services.auth.users.get(user))


@routes.add(wire.AuthAPI.delete_user, iam("DeleteUser", "user/{user}"))
def delete_user(request: ApiRequest, user: str) -> None:
    """Delete a user and the user's credentials."""
    request.services.auth.users.delete(user)


@routes.add(wire.AuthAPI.list_user_groups, iam("ReadUser", "user/{user}"))
def list_user_groups(request: ApiRequest, user: str, query: PageQuery) -> Page[wire.Group]:
    """List the groups of a user."""
    found = request.services.auth.memberships.targets_of(user, **window(query))
    return _groups(found)


@routes.add(wire.AuthAPI.list_user_policies, iam("ReadUser", "user/{user}"))
def list_user_policies(
    request: ApiRequest, user: str, query: wire.UserPoliciesQuery
) -> Page[wire.Policy]:
    """List the policies of a user: those attached, or all effective ones."""
    service = request.services.auth
    find = service.effective_policies if query.effective else service.user_policies.targets_of
    return _policies(find(user, **window(query)))


@routes.add(wire.AuthAPI.attach_to_user, iam("AttachPolicy", "user/{user}"))
def attach_to_user(request: ApiRequest, user: str, policy: str) -> None:
    """Attach a policy to a user."""
    request.services.auth.user_policies.add(user, policy)


@routes.add(wire.AuthAPI.detach_from_user, iam("DetachPolicy", "user/{user}"))
def detach_from_user(request: ApiRequest, user: str, policy: str) -> None:
    """Detach a policy from a user."""
    request.services.auth.user_policies.remove(user, policy)


# wire.Credentials


@routes.add(wire.AuthAPI.list_credentials, iam("ListCredentials", "user/{user}"))
def list_credentials(request: ApiRequest, user: str, query: PageQuery) -> Page[wire.Credentials]:
    """List the access keys of a user."""
    found = request.services.auth.credentials.list(user, **window(query))
    return _page(found, wire_credential, lambda credential: credential.access_key_id)


@routes.add(wire.AuthAPI.create_credentials, iam("CreateCredentials", "user/{user}"))
def create_credentials(request: ApiRequest, user: str) -> CredentialsWithSecret:
    """Create a key pair; only this answer contains the secret."""
    return wire_new_credential(request.services.auth.credentials.create(user))


@routes.add(wire.AuthAPI.get_credentials, iam("ReadCredentials", "user/{user}"))
def get_credentials(request: ApiRequest, user: str, access_key_id: str) -> wire.Credentials:
    """Return an access key of a user."""
    return wire_credential(request.services.auth.credentials.get(user, access_key_id))


@routes.add(wire.AuthAPI.delete_credentials, iam("DeleteCredentials", "user/{user}"))
def delete_credentials(request: ApiRequest, user: str, access_key_id: str) -> None:
    """Delete a key pair."""
    request.services.auth.credentials.delete(user, access_key_id)


# Groups


@routes.add(wire.AuthAPI.list_groups, iam("ListGroups", "*"))
def list_groups(request: ApiRequest, query: PageQuery) -> Page[wire.Group]:
    """List the groups."""
    return _groups(request.services.auth.groups.list(**window(query)))


@routes.add(wire.AuthAPI.create_group, iam("CreateGroup", "group/{body.id}"))
def create_group(request: ApiRequest, body: wire.GroupCreation) -> wire.Group:
    """Create a group."""
    created = request.services.auth.groups.create(body.id, description=body.description or "")
    return wire_group(created)


@routes.add(wire.AuthAPI.get_group, iam("ReadGroup", "group/{group}"))
def get_group(request: ApiRequest, group: str) -> wire.Group:
    """Return a group."""
    return wire_group(request.services.auth.groups.get(group))


@routes.add(wire.AuthAPI.delete_group, iam("DeleteGroup", "group/{group}"))
def delete_group(request: ApiRequest, group: str) -> None:
    """Delete a group, but not its members."""
    request.services.auth.groups.delete(group)


@routes.add(wire.AuthAPI.list_members, iam("ReadGroup", "group/{group}"))
def list_members(request: ApiRequest, group: str, query: PageQuery) -> Page[wire.User]:
    """List the members of a group."""
    found = request.services.auth.memberships.sources_of(group, **window(query))
    return _users(found)


@routes.add(wire.AuthAPI.add_member, iam("AddGroupMember", "group/{group}"))
def add_member(request: ApiRequest, group: str, user: str) -> None:
    """Add a user to a group."""
    request.services.auth.memberships.add(user, group)


@routes.add(wire.AuthAPI.remove_member, iam("RemoveGroupMember", "group/{group}"))
def remove_member(request: ApiRequest, group: str, user: str) -> None:
    """Remove a user from a group."""
    request.services.auth.memberships.remove(user, group)


@routes.add(wire.AuthAPI.list_group_policies, iam("ReadGroup", "group/{group}"))
def list_group_policies(request: ApiRequest, group: str, query: PageQuery) -> Page[wire.Policy]:
    """List the policies of a group."""
    found = request.services.auth.group_policies.targets_of(group, **window(query))
    return _policies(found)


@routes.add(wire.AuthAPI.attach_to_group, iam("AttachPolicy", "group/{group}"))
def attach_to_group(request: ApiRequest, group: str, policy: str) -> None:
    """Attach a policy to a group."""
    request.services.auth.group_policies.add(group, policy)


@routes.add(wire.AuthAPI.detach_from_group, iam("DetachPolicy", "group/{group}"))
def detach_from_group(request: ApiRequest, group: str, policy: str) -> None:
    """Detach a policy from a group."""
    request.services.auth.group_policies.remove(group, policy)


# Policies


@routes.add(wire.AuthAPI.list_policies, iam("ListPolicies", "*"))
def list_policies(request: ApiRequest, query: PageQuery) -> Page[wire.Policy]:
    """List the policies."""
    return _policies(request.services.auth.policies.list(**window(query)))


@routes.add(wire.AuthAPI.create_policy, iam("CreatePolicy", "policy/{body.id}"))
def create_policy(request: ApiRequest, body: wire.Policy) -> wire.Policy:
    """Create a policy."""
    return wire_policy(request.services.auth.policies.create(body.id, _statements(body)))


@routes.add(wire.AuthAPI.get_policy, iam("ReadPolicy", "policy/{policy}"))
def get_policy(request: ApiRequest, policy: str) -> wire.Policy:
    """Return a policy."""
    return wire_policy(request.services.auth.policies.get(policy))


@routes.add(wire.AuthAPI.update_policy, iam("UpdatePolicy", "policy/{policy}"))
def update_policy(request: ApiRequest, policy: str, body: wire.Policy) -> wire.Policy:
    """Replace the statements of a policy."""
    if body.id != policy:
        raise BadRequest(
            f"policy '{body.id}' in the body differs from policy '{policy}' in the path"
        )
    return wire_policy(request.services.auth.policies.update(policy, _statements(body)))


@routes.add(wire.AuthAPI.delete_policy, iam("DeletePolicy", "policy/{policy}"))
def delete_policy(request: ApiRequest, policy: str) -> None:
    """Delete a policy and detach it everywhere."""
    request.services.auth.policies.delete(policy)


# The permissions of a group as one word, for clients without support for policies. A word stands
# for the policies of one of the predefined groups. Setting it replaces these policies of a group;
# other policies are unchanged and not shown.

_WORDS: Final = {
    "Read": frozenset(BASE_GROUPS["Viewers"]),
    "Write": frozenset(BASE_GROUPS["Developers"]),
    "Super": frozenset(BASE_GROUPS["SuperUsers"]),
    "Admin": frozenset(BASE_GROUPS["Admins"]),
}
_ALL: Final = frozenset[str]().union(*_WORDS.values())


@routes.add(wire.AuthAPI.get_acl, iam("ReadGroup", "group/{group}"))
def get_acl(request: ApiRequest, group: str) -> wire.ACL:
    """Return the word for a group's permissions."""
    attached = _attached(request, group)
    if not attached:
        return wire.ACL(permission="")
    for word, policies in _WORDS.items():
        if attached == policies:
            return wire.ACL(permission=word)
    raise BadRequest(f"no word stands for the policies of {group}: list the policies instead")


@routes.add(wire.AuthAPI.set_acl, iam("AttachPolicy", "group/{group}"))
def set_acl(request: ApiRequest, group: str, body: wire.ACL) -> None:
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
