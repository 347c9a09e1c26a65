"""`lakebed auth users`."""

from typing import Annotated

import typer

from lakebed.cli.commands.auth.options import COLUMNS, PolicyOption, UserOption
from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption
from lakebed.cli.output import moment
from lakebed.cli.session import Session, client_command
from lakebed.client.paging import list_items

app = new_group("Manage users.")
credentials = new_group("Manage the access keys of a user.")
groups = new_group("Show the groups of a user.")
policies = new_group("Manage the policies of a user.")
app.add_typer(credentials, name="credentials")
app.add_typer(groups, name="groups")
app.add_typer(policies, name="policies")

OwnerOption = Annotated[
    str | None, typer.Option("--id", metavar="USER", help="The user's name.  [default: you]")
]


@client_command(app, "list")
def list_users(session: Session) -> None:
    """List the users."""
    session.output.table(list_items(session.client, "auth", "users"), COLUMNS)


@client_command(app, "create")
def create(session: Session, *, user: UserOption) -> None:
    """Create a user, who has no access key yet.

    lakebed auth users create --id ada
    """
    made = session.client.call("POST", "auth", "users", body={"id": user})
    session.output.done(f"Created the user {user}", made)


@client_command(app, "delete")
def delete(session: Session, *, user: UserOption, yes: YesOption = False) -> None:
    """Delete a user, with all access keys."""
    session.confirm(f"Delete the user {user}?", yes=yes)
    session.client.call("DELETE", "auth", "users", user)
    session.output.done(f"Deleted the user {user}")


@client_command(credentials, "list")
def list_credentials(session: Session, *, user: OwnerOption = None) -> None:
    """List the access keys of a user; their secrets are shown only once, when they are made."""
    session.output.table(
        list_items(session.client, "auth", "users", _or_me(session, user), "credentials"),
        [
            ("Access key id", lambda item: item["access_key_id"]),
            ("Created", lambda item: moment(item["creation_date"])),
        ],
    )


@client_command(credentials, "create")
def create_credentials(session: Session, *, user: OwnerOption = None) -> None:
    """Make an access key for a user. Its secret is shown now and never again."""
    session.output.record(
        session.client.call("POST", "auth", "users", _or_me(session, user), "credentials")
    )


@client_command(credentials, "delete")
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


@client_command(groups, "list")
def list_groups(session: Session, *, user: UserOption) -> None:
    """List the groups that a user is in."""
    session.output.table(list_items(session.client, "auth", "users", user, "groups"), COLUMNS)


@client_command(policies, "list")
def list_policies(
    session: Session,
    *,
    user: UserOption,
    effective: Annotated[
        bool, typer.Option("--effective", help="Those of the user's groups, too.")
    ] = False,
) -> None:
    """List the policies of a user."""
    session.output.table(
        list_items(
            session.client,
            "auth",
            "users",
            user,
            "policies",
            query={"effective": effective or None},
        ),
        COLUMNS,
    )


@client_command(policies, "attach")
def attach(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Give a user a policy.

    lakebed auth users policies attach --id ada --policy FSReadAll
    """
    session.client.call("PUT", "auth", "users", user, "policies", policy)
    session.output.done(f"Attached {policy} to the user {user}")


@client_command(policies, "detach")
def detach(session: Session, *, user: UserOption, policy: PolicyOption) -> None:
    """Take a policy away from a user."""
    session.client.call("DELETE", "auth", "users", user, "policies", policy)
    session.output.done(f"Detached {policy} from the user {user}")
