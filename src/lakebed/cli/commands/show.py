"""`lakebed show`."""

from lakebed.cli.commits import commit_at, commit_text
from lakebed.cli.groups import new_group
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument

app = new_group()


@client_command(app, "commit")
def commit(session: Session, ref: RefArgument) -> None:
    """Show the commit that a ref stands for.

    lakebed show commit lakefs://my-repo/main~1
    """
    found = commit_at(session.client, ref)
    if session.output.as_json:
        session.output.record(found)
    else:
        session.output.lines([found], commit_text)
