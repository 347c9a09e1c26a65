"""Users, groups, policies, and credentials."""

from msgspec import field

from lakebed.wire.base import Page, PageQuery, Wire
from lakebed.wire.calls import Resource, call
from lakebed.wire.config import CredentialsWithSecret


class CurrentUserQuery(Wire):
    may: list[str] = field(default_factory=list)
    """Permissions: an action, a space, and the resource."""


class UserPoliciesQuery(PageQuery):
    effective: bool = False


class User(Wire):
    id: str
    creation_date: int
    friendly_name: str | None = None
    email: str | None = None


class CurrentUser(Wire):
    user: User
    denied: list[str] = field(default_factory=list)
    """Requested permissions that are not granted."""


class UserCreation(Wire):
    id: str


class Group(Wire):
    id: str
    creation_date: int
    name: str | None = None
    description: str | None = None


class GroupCreation(Wire):
    id: str
    description: str | None = None


class Statement(Wire):
    effect: str
    resource: str
    action: list[str]
    condition: dict[str, dict[str, list[str]]] | None = None


class Policy(Wire):
    id: str
    statement: list[Statement]
    creation_date: int | None = None


class Credentials(Wire):
    access_key_id: str
    creation_date: int


class ACL(Wire):
    permission: str


class AuthAPI(Resource, tag="auth"):
    """Users, groups, policies and credentials."""

    @call("getCurrentUser", "GET", "/user")
    def current_user(self, query: CurrentUserQuery | None = None) -> CurrentUser: ...

    @call("listUsers", "GET", "/auth/users")
    def list_users(self, query: PageQuery | None = None) -> Page[User]: ...

    @call("createUser", "POST", "/auth/users", status=201, statuses=(409,))
    def create_user(self, body: UserCreation) -> User: ...

    @call("getUser", "GET", "/auth/users/{user}")
    def get_user(self, user: str) -> User: ...

    @call("deleteUser", "DELETE", "/auth/users/{user}", status=204)
    def delete_user(self, user: str) -> None: ...

    @call("listUserGroups", "GET", "/auth/users/{user}/groups")
    def list_user_groups(self, user: str, query: PageQuery | None = None) -> Page[Group]: ...

    @call("listUserPolicies", "GET", "/auth/users/{user}/policies")
    def list_user_policies(
        self, user: str, query: UserPoliciesQuery | None = None
    ) -> Page[Policy]: ...

    @call("attachPolicyToUser", "PUT", "/auth/users/{user}/policies/{policy}", status=201)
    def attach_to_user(self, user: str, policy: str) -> None: ...

    @call("detachPolicyFromUser", "DELETE", "/auth/users/{user}/policies/{policy}", status=204)
    def detach_from_user(self, user: str, policy: str) -> None: ...

    @call("listUserCredentials", "GET", "/auth/users/{user}/credentials")
    def list_credentials(self, user: str, query: PageQuery | None = None) -> Page[Credentials]: ...

    @call("createCredentials", "POST", "/auth/users/{user}/credentials", status=201)
    def create_credentials(self, user: str) -> CredentialsWithSecret: ...

    @call("getCredentials", "GET", "/auth/users/{user}/credentials/{access_key_id}")
    def get_credentials(self, user: str, access_key_id: str) -> Credentials: ...

    @call(
        "deleteCredentials", "DELETE", "/auth/users/{user}/credentials/{access_key_id}", status=204
    )
    def delete_credentials(self, user: str, access_key_id: str) -> None: ...

    @call("listGroups", "GET", "/auth/groups")
    def list_groups(self, query: PageQuery | None = None) -> Page[Group]: ...

    @call("createGroup", "POST", "/auth/groups", status=201, statuses=(409,))
    def create_group(self, body: GroupCreation) -> Group: ...

    @call("getGroup", "GET", "/auth/groups/{group}")
    def get_group(self, group: str) -> Group: ...

    @call("deleteGroup", "DELETE", "/auth/groups/{group}", status=204)
    def delete_group(self, group: str) -> None: ...

    @call("listGroupMembers", "GET", "/auth/groups/{group}/members")
    def list_members(self, group: str, query: PageQuery | None = None) -> Page[User]: ...

    @call("addGroupMembership", "PUT", "/auth/groups/{group}/members/{user}", status=201)
    def add_member(self, group: str, user: str) -> None: ...

    @call("deleteGroupMembership", "DELETE", "/auth/groups/{group}/members/{user}", status=204)
    def remove_member(self, group: str, user: str) -> None: ...

    @call("listGroupPolicies", "GET", "/auth/groups/{group}/policies")
    def list_group_policies(self, group: str, query: PageQuery | None = None) -> Page[Policy]: ...

    @call("attachPolicyToGroup", "PUT", "/auth/groups/{group}/policies/{policy}", status=201)
    def attach_to_group(self, group: str, policy: str) -> None: ...

    @call("detachPolicyFromGroup", "DELETE", "/auth/groups/{group}/policies/{policy}", status=204)
    def detach_from_group(self, group: str, policy: str) -> None: ...

    @call("listPolicies", "GET", "/auth/policies")
    def list_policies(self, query: PageQuery | None = None) -> Page[Policy]: ...

    @call("createPolicy", "POST", "/auth/policies", status=201, statuses=(409,))
    def create_policy(self, body: Policy) -> Policy: ...

    @call("getPolicy", "GET", "/auth/policies/{policy}")
    def get_policy(self, policy: str) -> Policy: ...

    @call("updatePolicy", "PUT", "/auth/policies/{policy}")
    def update_policy(self, policy: str, body: Policy) -> Policy: ...

    @call("deletePolicy", "DELETE", "/auth/policies/{policy}", status=204)
    def delete_policy(self, policy: str) -> None: ...

    @call("getGroupACL", "GET", "/auth/groups/{group}/acl")
    def get_acl(self, group: str) -> ACL: ...

    @call("setGroupACL", "POST", "/auth/groups/{group}/acl", status=201)
    def set_acl(self, group: str, body: ACL) -> None: ...


class PrincipalQuery(Wire):
    principal: str = field(name="principalId")


class ExternalPrincipal(Wire):
    id: str
    user_id: str


class PrincipalsAPI(Resource, tag="not there yet", path="/auth"):
    """External principals (cloud roles) of users: lakeFS has them, a Lakebed server answers 501."""

    @call("createUserExternalPrincipal", "POST", "/users/{user}/external/principals", status=201)
    def attach(self, user: str, query: PrincipalQuery) -> None: ...

    @call("deleteUserExternalPrincipal", "DELETE", "/users/{user}/external/principals", status=204)
    def detach(self, user: str, query: PrincipalQuery) -> None: ...

    @call("listUserExternalPrincipals", "GET", "/users/{user}/external/principals/ls")
    def list(self, user: str, query: PageQuery | None = None) -> Page[ExternalPrincipal]: ...

    @call("getExternalPrincipal", "GET", "/external/principals")
    def get(self, query: PrincipalQuery) -> ExternalPrincipal: ...
