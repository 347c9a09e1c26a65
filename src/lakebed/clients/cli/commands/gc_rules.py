"""`lakebed gc rules`: retention rules for the data of old commits."""

from pathlib import Path
from typing import Annotated

import typer

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import YesOption, read_json
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import RepositoryArgument, RepositoryUri
from lakebed.wire.garbage import GarbageCollectionRule, GarbageCollectionRules

app = new_group("Manage retention rules for the data of old commits.")


@client_command(app, "get")
def get_rules(session: Session, repository: RepositoryArgument) -> None:
    """Show the rules of a repository."""
    rules = session.client.garbage.rules(repository.repository)
    if session.output.as_json:
        session.output.record(rules)
        return
    others = GarbageCollectionRule(
        branch_id="(all others)", retention_days=rules.default_retention_days
    )
    session.output.table(
        [*(rules.branches or ()), others],
        [("Branch", lambda item: item.branch_id), ("Days", lambda item: item.retention_days)],
    )


@client_command(app, "set")
def set_rules(
    session: Session,
    repository: RepositoryArgument,
    *,
    days: Annotated[int, typer.Option(help="Retention of branches without a rule, in days")],
    branch: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN=DAYS", help="Retention by branch pattern (repeatable)"),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Replace the rules. Later runs delete data referenced only by expired commits.

    lakebed gc rules set lakefs://my-repo --days 30 --branch main=90 --branch 'exp-*=7'
    """
    rules = GarbageCollectionRules(
        default_retention_days=days, branches=[_branch_rule(text) for text in branch or ()]
    )
    _replace(session, repository, rules, yes=yes)


@client_command(app, "delete")
def delete_rules(session: Session, repository: RepositoryArgument) -> None:
    """Delete the rules: commits that have not expired are kept."""
    session.client.garbage.delete_rules(repository.repository)
    session.output.done(f"Deleted the rules of {repository}")


def add_config_commands(group: typer.Typer) -> None:
    """Add lakectl's equivalents, with the rules as a document."""
    client_command(group, "get-config")(get_config)
    client_command(group, "set-config")(set_config)
    client_command(group, "delete-config")(delete_rules)


def get_config(
    session: Session,
    repository: RepositoryArgument,
    *,
    plain: Annotated[bool, typer.Option("-p", help="Print JSON, like --json")] = False,
) -> None:
    """Show the rules of a repository, like `gc rules get`."""
    session.output.as_json |= plain
    get_rules(session, repository)


def set_config(
    session: Session,
    repository: RepositoryArgument,
    *,
    file: Annotated[
        Path,
        typer.Option(
            "--filename", "-f", metavar="FILE", help="File with rules, as JSON; - is stdin"
        ),
    ],
    yes: YesOption = False,
) -> None:
    """Replace the rules of a repository by those in a file, like `gc rules set`.

    The file contains {"default_retention_days": 30, "branches": [{"branch_id": "main",
    "retention_days": 90}]}.
    """
    rules = read_json(file, GarbageCollectionRules, "the output of `gc get-config -p`")
    _replace(session, repository, rules, yes=yes)


def _replace(
    session: Session, repository: RepositoryUri, rules: GarbageCollectionRules, *, yes: bool
) -> None:
    session.confirm(
        f"Data of {repository} referenced only by expired commits will be deleted. Set the rules?",
        yes=yes,
    )
    session.client.garbage.set_rules(repository.repository, rules)
    session.output.done(f"Set the rules of {repository}", rules)


def _branch_rule(text: str) -> GarbageCollectionRule:
    pattern, _, days = text.rpartition("=")
    if not pattern or not days.isdecimal():
        raise InvalidArguments(f"'{text}' is not a rule: pass a pattern and days, such as main=90")
    return GarbageCollectionRule(branch_id=pattern, retention_days=int(days))
