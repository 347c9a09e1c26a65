"""`lakebed auth groups`."""

from typing import Annotated

import typer

from lakebed.cli.commands.auth.options import COLUMNS, GroupOption, MemberOption, PolicyOption
from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption
from lakebed.cli.session import Session, client_command
from lakebed.client.paging import list_items

app = new_group("Manage groups of users.")
members = new_group("Manage who is in a group.")
policies = new_group("Manage the policies of a group.")
app.add_typer(members, name="members")
app.add_typer(policies, name="policies")


@client_command(app, "list")
def list_groups(session: Session) -> None:
    """List the groups."""
    session.output.table(list_items(session.client, "auth", "groups"), COLUMNS)


@client_command(app, "create")
def create(
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


@client_command(app, "delete")
def delete(session: Session, *, group: GroupOption, yes: YesOption = False) -> None:
    """Delete a group; its members stay."""
    session.confirm(f"Delete the group {group}?", yes=yes)
    session.client.call("DELETE", "auth", "groups", group)
    session.output.done(f"Deleted the group {group}")


@client_command(members, "list")
def list_members(session: Session, *, group: GroupOption) -> None:
    """List the members of a group."""
    session.output.table(list_items(session.client, "auth", "groups", group, "members"), COLUMNS)


@client_command(members, "add")
def add_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Put a user into a group.

    lakebed auth groups members add --id analysts --user ada
    """
    session.client.call("PUT", "auth", "groups", group, "members", user)
    session.output.done(f"Added {user} to the group {group}")


@client_command(members, "remove")
def remove_member(session: Session, *, group: GroupOption, user: MemberOption) -> None:
    """Take a user out of a group."""
    session.client.call("DELETE", "auth", "groups", group, "members", user)
    session.output.done(f"Removed {user} from the group {group}")


@client_command(policies, "list")
def list_policies(session: Session, *, group: GroupOption) -> None:
    """List the policies of a group."""
    session.output.table(list_items(session.client, "auth", "groups", group, "policies"), COLUMNS)


@client_command(policies, "attach")
def attach(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Give a group a policy."""
    session.client.call("PUT", "auth", "groups", group, "policies", policy)
    session.output.done(f"Attached {policy} to the group {group}")


@client_command(policies, "detach")
def detach(session: Session, *, group: GroupOption, policy: PolicyOption) -> None:
    """Take a policy away from a group."""
    session.client.call("DELETE", "auth", "groups", group, "policies", policy)
    session.output.done(f"Detached {policy} from the group {group}")
