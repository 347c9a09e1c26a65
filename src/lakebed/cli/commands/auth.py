"""`lakebed auth`: users, groups, policies and access keys."""

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from lakebed.cli.commands import auth_aws_iam
from lakebed.cli.errors import CommandError
from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption
from lakebed.cli.output import Column, Whole, moment
from lakebed.cli.session import Page, Session, client_command

users = new_group("Manage users.")
users_credentials = new_group("Manage the access keys of a user.")
users_groups = new_group("Show the groups of a user.")
users_policies = new_group("Manage the policies of a user.")
users.add_typer(users_credentials, name="credentials")
users.add_typer(users_groups, name="groups")
users.add_typer(users_policies, name="policies")
users.add_typer(auth_aws_iam.app, name="aws-iam")

groups = new_group("Manage groups of users.")
groups_members = new_group("Manage who is in a group.")
groups_policies = new_group("Manage the policies of a group.")
groups_acl = new_group("What a group may do, in one word.")
groups.add_typer(groups_members, name="members")
groups.add_typer(groups_policies, name="policies")
groups.add_typer(groups_acl, name="acl")

policies = new_group("Manage policies.")

app = new_group()
app.add_typer(users, name="users")
app.add_typer(groups, name="groups")
app.add_typer(policies, name="policies")

UserOption = Annotated[str, typer.Option("--id", metavar="USER", help="The user's name.")]
GroupOption = Annotated[str, typer.Option("--id", metavar="GROUP", help="The group's name.")]
PolicyIdOption = Annotated[str, typer.Option("--id", metavar="POLICY", help="The policy's name.")]
MemberOption = Annotated[str, typer.Option("--user", metavar="USER", help="The member's name.")]
PolicyOption = Annotated[str, typer.Option("--policy", metavar="POLICY", help="The policy's name.")]
OwnerOption = Annotated[
    str | None, typer.Option("--id", metavar="USER", help="The user's name.  [default: you]")
]

_COLUMNS: Final[list[Column]] = [
    ("Name", lambda item: item["id"]),
    ("Created", lambda item: moment(item.get("creation_date"))),
]


# Users


@client_command(users, "list")
def list_users(session: Session, *, page: Page) -> None:
    """List the users."""
    session.output.table(session.items(page, "auth", "users"), _COLUMNS)


@client_command(users, "create")
def create_user(session: Session, *, user: UserOption) -> None:
    """Create a user, who has no access key yet.

    lakebed auth users create --id ada
    """
    made = session.client.call("POST", "auth", "users", body={"id": user})
    session.output.done(f"Created the user {user}", made)


@client_command(users, "delete")
def delete_user(session: Session, *, user: UserOption, yes: YesOption = False) -> None:
    """Delete a user, with all access keys."""
    session.confirm(f"Delete the user {user}?", yes=yes)
    session.client.call("DELETE", "auth", "users", user)
    session.output.done(f"Deleted the user {user}")


@client_command(users_credentials, "list")
def list_credentials(session: Session, *, user: OwnerOption = None, page: Page) -> None:
    """List the access keys of a user; their secrets are shown only once, when they are made."""
    session.output.table(
        session.items(page, "auth", "users", _or_me(session, user), "credentials"),
        [
            ("Access key id", lambda item: Whole(item["access_key_id"])),
            ("Created", lambda item: moment(item["creation_date"])),
        ],
    )


@client_command(users_credentials, "create")
def create_credentials(session: Session, *, user: OwnerOption = None) -> None:
    """Make an access key for a user. Its secret is shown now and never again."""
    session.output.record(
        session.client.call("POST", "auth", "users", _or_me(session, user), "credentials")
    )


@client_command(users_credentials, "delete")
def delete_credentials(
    session: Session,
    *,
    user: OwnerOption = None,
    access_key_id: Annotated[str, typer.Option(metavar="KEY", help="The access key's id.")],
    yes: YesOption = False,
) -> None:
    """Delete an access key of a user."""
    session.confirm(f"Delete the access key {access_key_id}?", yes=yes)
    session.client.call(
        "DELETE", "auth", "users", _or_me(session, user), "credentials", access_key_id
    )
    session.output.done(f"Deleted the access key {access_key_id}")


def _or_me(session: Session, user: str | None) -> str:
    return user if user is not None else str(session.client.get("user")["user"]["id"])


@client_command(users_groups, "list")
def list_groups_of_user(session: Session, *, user: UserOption, page: Page) -> None:
    """List the groups that a user is in."""
    session.output.table(session.items(page, "auth", "users", user, "groups"), _COLUMNS)


@client_command(users_policies, "list")
def list_policies_of_user(
    session: Session,
    *,
    user: UserOption,
    effective: Annotated[
        bool, typer.Option("--effective", help="Those of the user's groups, too.")
    ] = False,
    page: Page,
) -> None:
    """List the policies of a user."""
    query = {"effective": effective or None}
    session.output.table(
        session.items(page, "auth", "users", user, "policies", query=query), _COLUMNS
    )


@client_command(users_policies, "attach")
def attach_to_user(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Give a user a policy.

    lakebed auth users policies attach --id ada --policy FSReadAll
    """
    session.client.call("PUT", "auth", "users", user, "policies", policy)
    session.output.done(f"Attached {policy} to the user {user}")


@client_command(users_policies, "detach")
def detach_from_user(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Take a policy away from a user."""
    session.client.call("DELETE", "auth", "users", user, "policies", policy)
    session.output.done(f"Detached {policy} from the user {user}")


# Groups


@client_command(groups, "list")
def list_groups(session: Session, *, page: Page) -> None:
    """List the groups."""
    session.output.table(session.items(page, "auth", "groups"), _COLUMNS)


@client_command(groups, "create")
def create_group(
    session: Session,
    *,
    group: GroupOption,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Create a group.

    lakebed auth groups create --id analysts
    """
    body = {"id": group} if description is None else {"id": group, "description": description}
    made = session.client.call("POST", "auth", "groups", body=body)
    session.output.done(f"Created the group {group}", made)


@client_command(groups, "delete")
def delete_group(session: Session, *, group: GroupOption, yes: YesOption = False) -> None:
    """Delete a group; its members stay."""
    session.confirm(f"Delete the group {group}?", yes=yes)
    session.client.call("DELETE", "auth", "groups", group)
    session.output.done(f"Deleted the group {group}")


@client_command(groups_members, "list")
def list_members(session: Session, *, group: GroupOption, page: Page) -> None:
    """List the members of a group."""
    session.output.table(session.items(page, "auth", "groups", group, "members"), _COLUMNS)


@client_command(groups_members, "add")
def add_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Put a user into a group.

    lakebed auth groups members add --id analysts --user ada
    """
    session.client.call("PUT", "auth", "groups", group, "members", user)
    session.output.done(f"Added {user} to the group {group}")


@client_command(groups_members, "remove")
def remove_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Take a user out of a group."""
    session.client.call("DELETE", "auth", "groups", group, "members", user)
    session.output.done(f"Removed {user} from the group {group}")


@client_command(groups_policies, "list")
def list_policies_of_group(session: Session, *, group: GroupOption, page: Page) -> None:
    """List the policies of a group."""
    session.output.table(session.items(page, "auth", "groups", group, "policies"), _COLUMNS)


@client_command(groups_policies, "attach")
def attach_to_group(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Give a group a policy."""
    session.client.call("PUT", "auth", "groups", group, "policies", policy)
    session.output.done(f"Attached {policy} to the group {group}")


@client_command(groups_policies, "detach")
def detach_from_group(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Take a policy away from a group."""
    session.client.call("DELETE", "auth", "groups", group, "policies", policy)
    session.output.done(f"Detached {policy} from the group {group}")


@client_command(groups_acl, "get")
def get_acl(session: Session, *, group: GroupOption) -> None:
    """Show the word that stands for the policies of a group."""
    session.output.record(session.client.get("auth", "groups", group, "acl"))


@client_command(groups_acl, "set")
def set_acl(
    session: Session,
    *,
    group: GroupOption,
    permission: Annotated[
        Literal["Read", "Write", "Super", "Admin"], typer.Option(help="What it may do.")
    ],
) -> None:
    """Let a group do what a word says, in all repositories.

    lakebed auth groups acl set --id analysts --permission Read
    """
    session.client.call("POST", "auth", "groups", group, "acl", body={"permission": permission})
    session.output.done(f"The group {group} may {permission}")


# Policies


@client_command(policies, "list")
def list_policies(session: Session, *, page: Page) -> None:
    """List the policies."""
    session.output.table(session.items(page, "auth", "policies"), _COLUMNS)


@client_command(policies, "show")
def show_policy(session: Session, *, policy: PolicyIdOption) -> None:
    """Show what a policy allows and denies."""
    found = session.client.get("auth", "policies", policy)
    if session.output.as_json:
        session.output.record(found)
        return
    session.output.table(
        found["statement"],
        [
            ("Effect", lambda item: item["effect"]),
            ("Action", lambda item: " ".join(item["action"])),
            ("Resource", lambda item: item["resource"]),
        ],
    )


@client_command(policies, "create")
def create_policy(
    session: Session,
    *,
    policy: PolicyIdOption,
    document: Annotated[
        Path,
        typer.Option("--statement-document", metavar="FILE", help="Its statements, as JSON."),
    ],
) -> None:
    """Create a policy from a file.

    lakebed auth policies create --id readers --statement-document readers.json

    The file holds {"statement": [{"effect": "allow", "action": ["fs:Read*"], "resource": "*"}]}.
    """
    body = {"id": policy, "statement": _read_statements(document)}
    made = session.client.call("POST", "auth", "policies", body=body)
    session.output.done(f"Created the policy {policy}", made)


def _read_statements(document: Path) -> list[Any]:
    """Return the statements of a document: a list of them, or a policy that holds one.

    Raises:
        CommandError: The document is not a policy.
        OSError: It cannot be read.
    """
    try:
        content = json.loads(document.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CommandError(f"{document} is not JSON") from None
    statements = content.get("statement") if isinstance(content, dict) else content
    if not isinstance(statements, list):
        raise CommandError(
            f'{document} is not a policy, expected {{"statement": [...]}} or a list of statements'
        )
    return statements


@client_command(policies, "delete")
def delete_policy(session: Session, *, policy: PolicyIdOption, yes: YesOption = False) -> None:
    """Delete a policy, and detach it from all users and groups."""
    session.confirm(f"Delete the policy {policy}?", yes=yes)
    session.client.call("DELETE", "auth", "policies", policy)
    session.output.done(f"Deleted the policy {policy}")
