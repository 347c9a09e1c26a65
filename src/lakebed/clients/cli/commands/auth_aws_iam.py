"""`lakebed auth users aws-iam`: AWS roles that log in as a user.

A lakeFS feature. A Lakebed server responds with 501 and an explanation.
"""

from typing import Annotated

import typer

from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import Whole
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.wire.auth import PrincipalQuery

app = new_group("Manage the AWS roles that log in as a user.")

UserOption = Annotated[str, typer.Option("--id", metavar="USER", help="Name of the user")]
PrincipalOption = Annotated[
    str, typer.Option("--principal-id", metavar="ARN", help="ARN of the role")
]


@client_command(app, "attach")
def attach(session: Session, *, user: UserOption, principal: PrincipalOption) -> None:
    """Let a role log in as a user."""
    session.client.principals.attach(user, PrincipalQuery(principal=principal))
    session.output.done(f"Attached {principal} to the user {user}")


@client_command(app, "detach")
def detach(session: Session, *, user: UserOption, principal: PrincipalOption) -> None:
    """Detach a role from a user."""
    session.client.principals.detach(user, PrincipalQuery(principal=principal))
    session.output.done(f"Detached {principal} from the user {user}")


@client_command(app, "list")
def list_principals(session: Session, *, user: UserOption, page: PageOptions) -> None:
    """List the roles that log in as a user."""
    session.show_list(
        page,
        [("Principal", lambda item: Whole(item.id)), ("User", lambda item: item.user_id)],
        session.client.principals.list,
        user,
    )


@client_command(app, "lookup")
def lookup(session: Session, *, principal: PrincipalOption) -> None:
    """Show the user that a role logs in as."""
    session.output.record(session.client.principals.get(PrincipalQuery(principal=principal)))
