"""`lakebed auth`: users, groups, policies and access keys."""

from pathlib import Path
from typing import Annotated, Final, Literal, cast

import typer
from msgspec import Struct

from lakebed.clients.cli.commands import auth_aws_iam
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import YesOption, read_json
from lakebed.clients.cli.output import Column, Whole, moment
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.wire.auth import (
    ACL,
    Group,
    GroupCreation,
    Policy,
    Statement,
    User,
    UserCreation,
    UserPoliciesQuery,
)

users = new_group("Manage users.")
users_credentials = new_group("Manage the access keys of a user.")
users_groups = new_group("Show the groups of a user.")
users_policies = new_group("Manage the policies of a user.")
users.add_typer(users_credentials, name="credentials")
users.add_typer(users_groups, name="groups")
users.add_typer(users_policies, name="policies")
users.add_typer(auth_aws_iam.app, name="aws-iam")

groups = new_group("Manage groups of users.")
groups_members = new_group("Manage the members of a group.")
groups_policies = new_group("Manage the policies of a group.")
groups_acl = new_group("Manage the permissions of a group by a keyword.")
groups.add_typer(groups_members, name="members")
groups.add_typer(groups_policies, name="policies")
groups.add_typer(groups_acl, name="acl")

policies = new_group("Manage policies.")

app = new_group()
app.add_typer(users, name="users")
app.add_typer(groups, name="groups")
app.add_typer(policies, name="policies")

UserOption = Annotated[str, typer.Option("--id", metavar="USER", help="Name of the user")]
GroupOption = Annotated[str, typer.Option("--id", metavar="GROUP", help="Name of the group")]
PolicyIdOption = Annotated[str, typer.Option("--id", metavar="POLICY", help="Name of the policy")]
MemberOption = Annotated[str, typer.Option("--user", metavar="USER", help="Name of the member")]
PolicyOption = Annotated[str, typer.Option("--policy", metavar="POLICY", help="Name of the policy")]
OwnerOption = Annotated[
    str | None, typer.Option("--id", metavar="USER", help="Name of the user  [default: you]")
]

_COLUMNS: Final[list[Column[User | Group | Policy]]] = [
    ("Name", lambda item: item.id),
    ("Created", lambda item: moment(item.creation_date)),
]


# Users


@client_command(users, "list")
def list_users(session: Session, *, page: PageOptions) -> None:
    """List the users."""
    session.show_list(page, _COLUMNS, session.client.auth.list_users)


@client_command(users, "create")
def create_user(session: Session, *, user: UserOption) -> None:
    """Create a user, without access keys.

    lakebed auth users create --id ada
    """
    made = session.client.auth.create_user(UserCreation(id=user))
    session.output.done(f"Created the user {user}", made)


@client_command(users, "delete")
def delete_user(session: Session, *, user: UserOption, yes: YesOption = False) -> None:
    """Delete a user and the user's access keys."""
    session.confirm(f"Delete the user {user}?", yes=yes)
    session.client.auth.delete_user(user)
    session.output.done(f"Deleted the user {user}")


@client_command(users_credentials, "list")
def list_credentials(session: Session, *, user: OwnerOption = None, page: PageOptions) -> None:
    """List the access keys of a user, without their secrets."""
    session.show_list(
        page,
        [
            ("Access key id", lambda item: Whole(item.access_key_id)),
            ("Created", lambda item: moment(item.creation_date)),
        ],
        session.client.auth.list_credentials,
        _or_current_user(session, user),
    )


@client_command(users_credentials, "create")
def create_credentials(session: Session, *, user: OwnerOption = None) -> None:
    """Create an access key for a user. The secret is shown only once."""
    session.output.record(session.client.auth.create_credentials(_or_current_user(session, user)))


@client_command(users_credentials, "delete")
def delete_credentials(
    session: Session,
    *,
    user: OwnerOption = None,
    access_key_id: Annotated[str, typer.Option(metavar="KEY", help="Access key id")],
    yes: YesOption = False,
) -> None:
    """Delete an access key of a user."""
    session.confirm(f"Delete the access key {access_key_id}?", yes=yes)
    session.client.auth.delete_credentials(_or_current_user(session, user), access_key_id)
    session.output.done(f"Deleted the access key {access_key_id}")


def _or_current_user(session: Session, user: str | None) -> str:
    return user if user is not None else session.client.auth.current_user().user.id


@client_command(users_groups, "list")
def list_groups_of_user(session: Session, *, user: UserOption, page: PageOptions) -> None:
    """List the groups of a user."""
    session.show_list(page, _COLUMNS, session.client.auth.list_user_groups, user)


@client_command(users_policies, "list")
def list_policies_of_user(
    session: Session,
    *,
    user: UserOption,
    effective: Annotated[
        bool, typer.Option("--effective", help="Include policies of the user's groups")
    ] = False,
    page: PageOptions,
) -> None:
    """List the policies of a user."""
    query = UserPoliciesQuery(effective=effective)
    session.show_list(page, _COLUMNS, session.client.auth.list_user_policies, user, query)


@client_command(users_policies, "attach")
def attach_to_user(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Attach a policy to a user.

    lakebed auth users policies attach --id ada --policy FSReadAll
    """
    session.client.auth.attach_to_user(user, policy)
    session.output.done(f"Attached {policy} to the user {user}")


@client_command(users_policies, "detach")
def detach_from_user(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Detach a policy from a user."""
    session.client.auth.detach_from_user(user, policy)
    session.output.done(f"Detached {policy} from the user {user}")


# Groups


@client_command(groups, "list")
def list_groups(session: Session, *, page: PageOptions) -> None:
    """List the groups."""
    session.show_list(page, _COLUMNS, session.client.auth.list_groups)


@client_command(groups, "create")
def create_group(
    session: Session,
    *,
    group: GroupOption,
    description: Annotated[str | None, typer.Option(help="Purpose of the group")] = None,
) -> None:
    """Create a group.

    lakebed auth groups create --id analysts
    """
    made = session.client.auth.create_group(GroupCreation(id=group, description=description))
    session.output.done(f"Created the group {group}", made)


@client_command(groups, "delete")
def delete_group(session: Session, *, group: GroupOption, yes: YesOption = False) -> None:
    """Delete a group; its members are kept."""
    session.confirm(f"Delete the group {group}?", yes=yes)
    session.client.auth.delete_group(group)
    session.output.done(f"Deleted the group {group}")


@client_command(groups_members, "list")
def list_members(session: Session, *, group: GroupOption, page: PageOptions) -> None:
    """List the members of a group."""
    session.show_list(page, _COLUMNS, session.client.auth.list_members, group)


@client_command(groups_members, "add")
def add_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Add a user to a group.

    lakebed auth groups members add --id analysts --user ada
    """
    session.client.auth.add_member(group, user)
    session.output.done(f"Added {user} to the group {group}")


@client_command(groups_members, "remove")
def remove_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Remove a user from a group."""
    session.client.auth.remove_member(group, user)
    session.output.done(f"Removed {user} from the group {group}")


@client_command(groups_policies, "list")
def list_policies_of_group(session: Session, *, group: GroupOption, page: PageOptions) -> None:
    """List the policies of a group."""
    session.show_list(page, _COLUMNS, session.client.auth.list_group_policies, group)


@client_command(groups_policies, "attach")
def attach_to_group(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Attach a policy to a group."""
    session.client.auth.attach_to_group(group, policy)
    session.output.done(f"Attached {policy} to the group {group}")


@client_command(groups_policies, "detach")
def detach_from_group(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Detach a policy from a group."""
    session.client.auth.detach_from_group(group, policy)
    session.output.done(f"Detached {policy} from the group {group}")


@client_command(groups_acl, "get")
def get_acl(session: Session, *, group: GroupOption) -> None:
    """Show the permission keyword of a group."""
    session.output.record(session.client.auth.get_acl(group))


@client_command(groups_acl, "set")
def set_acl(
    session: Session,
    *,
    group: GroupOption,
    permission: Annotated[
        Literal["Read", "Write", "Super", "Admin"], typer.Option(help="Permission keyword")
    ],
) -> None:
    """Set the permission keyword of a group, for all repositories.

    lakebed auth groups acl set --id analysts --permission Read
    """
    session.client.auth.set_acl(group, ACL(permission=permission))
    session.output.done(f"The group {group} has the permission {permission}")


# Policies


@client_command(policies, "list")
def list_policies(session: Session, *, page: PageOptions) -> None:
    """List the policies."""
    session.show_list(page, _COLUMNS, session.client.auth.list_policies)


@client_command(policies, "show")
def show_policy(session: Session, *, policy: PolicyIdOption) -> None:
    """Show the statements of a policy."""
    found = session.client.auth.get_policy(policy)
    if session.output.as_json:
        session.output.record(found)
        return
    session.output.table(
        found.statement,
        [
            ("Effect", lambda item: item.effect),
            ("Action", lambda item: " ".join(item.action)),
            ("Resource", lambda item: item.resource),
        ],
    )


@client_command(policies, "create")
def create_policy(
    session: Session,
    *,
    policy: PolicyIdOption,
    document: Annotated[
        Path,
        typer.Option("--statement-document", metavar="FILE", help="File with statements, as JSON"),
    ],
) -> None:
    """Create a policy from a file.

    lakebed auth policies create --id readers --statement-document readers.json

    The file contains {"statement": [{"effect": "allow", "action": ["fs:Read*"], "resource": "*"}]}.
    """
    body = Policy(id=policy, statement=_read_statements(document))
    made = session.client.auth.create_policy(body)
    session.output.done(f"Created the policy {policy}", made)


class _Document(Struct):
    """A policy, reduced to its statements."""

    statement: list[Statement]


def _read_statements(document: Path) -> list[Statement]:
    """Return the statements of a document: a list, or a policy with a list."""
    expected = 'a policy, {"statement": [...]} or a list of statements'
    kind = cast("type[list[Statement] | _Document]", list[Statement] | _Document)
    found = read_json(document, kind, expected)
    return found if isinstance(found, list) else found.statement


@client_command(policies, "delete")
def delete_policy(session: Session, *, policy: PolicyIdOption, yes: YesOption = False) -> None:
    """Delete a policy, and detach it from all users and groups."""
    session.confirm(f"Delete the policy {policy}?", yes=yes)
    session.client.auth.delete_policy(policy)
    session.output.done(f"Deleted the policy {policy}")
