"""`lakebed auth policies`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.cli.commands.auth.options import COLUMNS, PolicyIdOption
from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption
from lakebed.cli.session import Session, client_command
from lakebed.client.errors import CommandError
from lakebed.client.paging import list_items

app = new_group("Manage policies.")


@client_command(app, "list")
def list_policies(session: Session) -> None:
    """List the policies."""
    session.output.table(list_items(session.client, "auth", "policies"), COLUMNS)


@client_command(app, "show")
def show(session: Session, *, policy: PolicyIdOption) -> None:
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


@client_command(app, "create")
def create(
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
    """The statements of a document: a list of them, or a policy that holds one.

    Raises:
        CommandError: It is something else.
        OSError: It cannot be read.
    """
    try:
        content = json.loads(document.read_text(encoding="utf-8"))
    except ValueError:
        raise CommandError(f"{document} is not JSON") from None
    statements = content.get("statement") if isinstance(content, dict) else content
    if not isinstance(statements, list):
        raise CommandError(
            f'{document} is no policy, expected {{"statement": [...]}} or a list of statements'
        )
    return statements


@client_command(app, "delete")
def delete(session: Session, *, policy: PolicyIdOption, yes: YesOption = False) -> None:
    """Delete a policy, and take it away from whoever has it."""
    session.confirm(f"Delete the policy {policy}?", yes=yes)
    session.client.call("DELETE", "auth", "policies", policy)
    session.output.done(f"Deleted the policy {policy}")
