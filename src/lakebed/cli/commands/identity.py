"""`lakebed identity`."""

from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command

app = new_app()


@client_command(app, "identity")
def identity(session: Session) -> None:
    """Show who you are to the server."""
    session.output.record(session.client.get("user")["user"])
