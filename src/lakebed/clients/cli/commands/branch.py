"""`lakebed branch` and `lakebed branch-protect`: branches and protection rules."""

from collections.abc import Callable, Collection
from typing import Annotated, Final

import typer

from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import AllowEmptyOption, SkipHooksOption, YesOption
from lakebed.clients.cli.output import CommitId
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.clients.cli.uris import (
    REF,
    BranchArgument,
    RefUri,
    RepositoryArgument,
    RepositoryUri,
    parse_ref,
    same_repository,
)
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.paging import list_some
from lakebed.wire.base import ForceSkipQuery, KeysQuery, SkipQuery
from lakebed.wire.refs import BranchCreation, ResetCreation, RevertCreation
from lakebed.wire.repositories import BranchProtectionRule, RepositoriesAPI

app = new_group()
protect_app = new_group()

_TRIES_MAX: Final = 5
_CHANGED_MEANWHILE: Final = 412

PatternArgument = Annotated[str, typer.Argument(metavar="PATTERN", help="For example 'stable-*'")]


@client_command(app, "create")
def create(
    session: Session,
    branch: BranchArgument,
    *,
    source: Annotated[
        RefUri,
        typer.Option("--source", "-s", **REF, metavar="REF", help="Ref to start from"),
    ],
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Create a branch.

    lakebed branch create lakefs://my-repo/dev --source lakefs://my-repo/main
    """
    repository = same_repository(branch, source)
    # The response is a bare commit id, not JSON.
    answer = session.client.branches.create(
        repository,
        BranchCreation(name=branch.ref, source=source.ref),
        SkipQuery(skip_hooks=skip_hooks),
    )
    commit_id = answer.strip().strip('"')
    session.output.done(
        f"Created {branch} at {commit_id}", {"id": branch.ref, "commit_id": commit_id}
    )


@client_command(app, "list")
def list_branches(session: Session, repository: RepositoryArgument, *, page: PageOptions) -> None:
    """List the branches of a repository."""
    show_branches(session, repository, page)


def show_branches(session: Session, repository: RepositoryUri, page: PageOptions) -> None:
    """Print the branches of a repository."""
    session.show_list(
        page,
        [("Branch", lambda item: item.id), ("Commit", lambda item: CommitId(item.commit_id))],
        session.client.branches.list,
        repository.repository,
    )


@client_command(app, "show")
def show(session: Session, branch: BranchArgument) -> None:
    """Show the head commit of a branch."""
    session.output.record(session.client.branches.get(branch.repository, branch.ref))


@client_command(app, "reset")
def reset(
    session: Session,
    branch: BranchArgument,
    *,
    prefix: Annotated[str | None, typer.Option(help="Only changes below this prefix")] = None,
    object_path: Annotated[
        str | None, typer.Option("--object", help="Only the change of this object")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Discard the uncommitted changes of a branch. This cannot be undone.

    lakebed branch reset lakefs://my-repo/main --prefix data/
    """
    if prefix is not None and object_path is not None:
        raise InvalidArguments("--prefix and --object cannot be combined: pass one of them")
    if object_path is not None:
        what, body = f" of {object_path}", ResetCreation(type="object", path=object_path)
    elif prefix is not None:
        what, body = f" below {prefix}", ResetCreation(type="common_prefix", path=prefix)
    else:
        what, body = "", ResetCreation(type="reset")
    at = (branch.repository, branch.ref)
    query = KeysQuery(prefix=body.path or "")
    [*first] = list_some(1, session.client.branches.diff, *at, query)
    # A path sorts before all paths that it is a prefix of.
    if not first or object_path not in (None, first[0].path):
        raise CommandError(f"{branch} has no uncommitted changes{what}: nothing was reset")
    session.confirm(f"Discard the uncommitted changes{what} on {branch}?", yes=yes)
    session.client.branches.reset(*at, body)
    session.output.done(f"Reset the uncommitted changes{what} on {branch}")


@client_command(app, "revert")
def revert(
    session: Session,
    branch: BranchArgument,
    refs: Annotated[list[str], typer.Argument(metavar="REF", help="Commits to revert, in order")],
    *,
    parent: Annotated[
        int | None,
        typer.Option(
            "--parent-number",
            "-m",
            min=1,
            help="For a merge commit, the parent number to revert to",
        ),
    ] = None,
    allow_empty: AllowEmptyOption = False,
    skip_hooks: SkipHooksOption = False,
    yes: YesOption = False,
) -> None:
    """Revert the changes of commits.

    lakebed branch revert lakefs://my-repo/main main~1
    """
    names = [_name_in(branch, ref) for ref in refs]
    session.confirm(f"Revert {', '.join(names)} on {branch}?", yes=yes)
    made = []
    for name in names:
        body = RevertCreation(ref=name, parent_number=parent or 0, allow_empty=allow_empty)
        query = SkipQuery(skip_hooks=skip_hooks)
        made.append(_revert(session, branch, body, query))
        if not session.output.as_json:
            session.output.done(f"Reverted {name} on {branch}: {made[-1]}")
    if session.output.as_json:
        session.output.done("", {"reverted": names, "commits": made})


def _revert(session: Session, branch: RefUri, body: RevertCreation, query: SkipQuery) -> str:
    """Revert a commit; return the branch's new head."""
    at = (branch.repository, branch.ref)
    session.client.branches.revert(*at, body, query)
    return session.client.branches.get(*at).commit_id


def _name_in(branch: RefUri, ref: str) -> str:
    """Return a ref given by name or by URI, which must be in the branch's repository."""
    if "://" not in ref:
        return ref
    uri = parse_ref(ref)
    same_repository(branch, uri)
    return uri.ref


@client_command(app, "delete")
def delete(
    session: Session,
    branch: BranchArgument,
    *,
    skip_hooks: SkipHooksOption = False,
    yes: YesOption = False,
) -> None:
    """Delete a branch and its uncommitted changes."""
    session.confirm(f"Delete {branch} and its uncommitted changes?", yes=yes)
    query = ForceSkipQuery(skip_hooks=skip_hooks)
    session.client.branches.delete(branch.repository, branch.ref, query)
    session.output.done(f"Deleted {branch}")


@client_command(protect_app, "list")
def list_rules(session: Session, repository: RepositoryArgument) -> None:
    """List the patterns of protected branches."""
    rules, _ = _read_rules(session, repository)
    session.output.table(
        rules,
        [
            ("Pattern", lambda item: item.pattern),
            ("Only merges", lambda item: "yes" if item.strict else ""),
        ],
    )


@client_command(protect_app, "add")
def protect(
    session: Session,
    repository: RepositoryArgument,
    pattern: PatternArgument,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also refuse reverts and cherry-picks")
    ] = False,
) -> None:
    """Protect the branches that match a pattern."""
    rules = _change_rules(
        session, repository, lambda patterns: [*patterns, pattern], strict=[pattern] * strict
    )
    session.output.done(f"Protected {pattern} in {repository}", rules)


@client_command(protect_app, "delete")
def unprotect(session: Session, repository: RepositoryArgument, pattern: PatternArgument) -> None:
    """Delete the rule of a pattern."""

    def without(patterns: list[str]) -> list[str]:
        if pattern not in patterns:
            raise CommandError(
                f"{repository} has no rule {pattern!r}: see `lakebed branch-protect list`"
            )
        return [other for other in patterns if other != pattern]

    rules = _change_rules(session, repository, without)
    session.output.done(f"Deleted the rule {pattern} of {repository}", rules)


def _read_rules(
    session: Session, repository: RepositoryUri
) -> tuple[list[BranchProtectionRule], str | None]:
    answer = session.client.ask(RepositoriesAPI.protection.request(repository.repository))
    return answer.value, answer.headers.get("ETag")


def _change_rules(
    session: Session,
    repository: RepositoryUri,
    change: Callable[[list[str]], list[str]],
    *,
    strict: Collection[str] = (),
) -> dict[str, list[str]]:
    """Change the rules with compare-and-swap by ETag; return the new patterns."""
    for tries_left in reversed(range(_TRIES_MAX)):
        rules, etag = _read_rules(session, repository)
        patterns = list(dict.fromkeys(change([rule.pattern for rule in rules])))
        # Without a value, `strict` of an existing rule stays unchanged.
        body = [
            BranchProtectionRule(pattern=pattern, strict=True if pattern in strict else None)
            for pattern in patterns
        ]
        request = RepositoriesAPI.set_protection.request(repository.repository, body)
        try:
            session.client.ask(request, headers={"If-Match": etag} if etag else {})
        except Refused as error:
            if error.status != _CHANGED_MEANWHILE or not tries_left:
                raise
        else:
            return {"patterns": patterns}
    raise AssertionError("the last attempt returns or raises")
