"""`lakebed branch-protect`: rules that keep branches from direct changes."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from lakebed.cli.groups import new_group
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RepositoryArgument, RepositoryUri
from lakebed.client.errors import CommandError, Refused
from lakebed.client.http import decoded

app = new_group()

_TRIES_MAX: Final = 5
_CHANGED_MEANWHILE: Final = 412

PatternArgument = Annotated[str, typer.Argument(metavar="PATTERN", help="For example 'stable-*'.")]


@client_command(app, "list")
def list_rules(session: Session, repository: RepositoryArgument) -> None:
    """List the patterns of protected branches."""
    rules, _ = _rules(session, repository)
    session.output.table(rules, [("Pattern", lambda item: item["pattern"])])


@client_command(app, "add")
def add(session: Session, repository: RepositoryArgument, pattern: PatternArgument) -> None:
    """Protect the branches that match a pattern."""
    rules = _change(session, repository, lambda patterns: [*patterns, pattern])
    session.output.done(f"Protected {pattern} in {repository}", rules)


@client_command(app, "delete")
def delete(session: Session, repository: RepositoryArgument, pattern: PatternArgument) -> None:
    """Take a pattern away."""

    def without(patterns: list[str]) -> list[str]:
        if pattern not in patterns:
            raise CommandError(f"{repository} has no rule {pattern!r}")
        return [other for other in patterns if other != pattern]

    rules = _change(session, repository, without)
    session.output.done(f"Deleted the rule {pattern} of {repository}", rules)


def _rules(session: Session, repository: RepositoryUri) -> tuple[list[dict[str, Any]], str | None]:
    answer = session.client.exchange("GET", *_path(repository))
    return decoded(answer) or [], answer.headers.get("ETag")


def _change(
    session: Session, repository: RepositoryUri, change: Callable[[list[str]], list[str]]
) -> dict[str, list[str]]:
    """Replace the rules by changed ones, over those that were read and no others."""
    for tries_left in reversed(range(_TRIES_MAX)):
        rules, etag = _rules(session, repository)
        patterns = list(dict.fromkeys(change([rule["pattern"] for rule in rules])))
        try:
            session.client.exchange(
                "PUT",
                *_path(repository),
                body=[{"pattern": pattern} for pattern in patterns],
                headers={"If-Match": etag} if etag else {},
            )
        except Refused as error:
            if error.status != _CHANGED_MEANWHILE or not tries_left:
                raise
        else:
            return {"patterns": patterns}
    raise AssertionError("the last try returns or raises")


def _path(repository: RepositoryUri) -> tuple[str, ...]:
    return "repositories", repository.repository, "settings", "branch_protection"
