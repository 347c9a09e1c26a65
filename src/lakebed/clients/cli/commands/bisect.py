"""`lakebed bisect`: find the commit that broke something, by halving what is left.

What is left is kept in a file in the home folder, so that each step is a command of its own. Only
first parents are followed: there, all commits before the one that broke it are good.
"""

import os
import subprocess
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from lakebed.clients.cli.commands.history import commit_text
from lakebed.clients.cli.errors import CommandError
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import moment, printable
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.tables import CommitId, for_scripts
from lakebed.clients.cli.uris import RefArgument, same_repository
from lakebed.clients.http.paging import list_items
from lakebed.wire.refs import Commit, LogCommitsQuery

app = new_group()

_FILE: Final = ".lakebed.bisect.json"


class _Search(msgspec.Struct, kw_only=True):
    """What is left of a search: the newest commit first."""

    repository: str
    commits: list[Commit]


_CANNOT_RUN: Final = frozenset({126, 127})
"""What shells answer if a program is not there, or is none."""


@client_command(app, "start")
def start(session: Session, bad: RefArgument, good: RefArgument) -> None:
    """Begin with a commit that is bad, and an older one that was good.

    lakebed bisect start lakefs://my-repo/main lakefs://my-repo/v1
    """
    repository = same_repository(bad, good)
    good_id = session.client.commits.get(repository, good.ref).id
    query = LogCommitsQuery(first_parent=True, stop_at=good_id)
    commits = list(list_items(session.client.refs.log, repository, bad.ref, query))
    if len(commits) < 2 or commits[-1].id != good_id:  # noqa: PLR2004 (the good one and a bad)
        raise CommandError(f"{good} is not an older commit of {bad}, by first parents")
    state = _Search(repository=repository, commits=commits[:-1])
    _save(state)
    _say(state)


@app.command()
def good() -> None:
    """Say that the commit in question is good."""
    _say(_halve(_load(), is_good=True))


@app.command()
def bad() -> None:
    """Say that the commit in question is bad."""
    _say(_halve(_load(), is_good=False))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(*, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]) -> None:
    """Let a program decide: exit code 0 means good. It finds the commit in BISECT_ID.

    lakebed bisect run ./check.sh
    """
    state = _load()
    while len(state.commits) > 1:
        commit = _current(state)
        is_good = _runs_well(command, commit)
        typer.echo(f"{'good' if is_good else 'bad'}: {_line(commit)}")
        state = _halve(state, is_good=is_good)
    _say(state)


@app.command()
def view() -> None:
    """Show the commits that are left."""
    for commit in _load().commits:
        if os.isatty(1):
            typer.echo(commit_text(commit))
        else:
            when = moment(commit.creation_date)
            typer.echo(for_scripts([commit.id, when, commit.committer, commit.message]))


@app.command()
def log() -> None:
    """Show how far it has come."""
    _say(_load())


@app.command()
def reset() -> None:
    """Forget what was found out."""
    _load()
    _file().unlink()
    typer.echo("Forgot the search")


def _file() -> Path:
    return Path.home() / _FILE


def _load() -> _Search:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=_Search)
    except FileNotFoundError:
        raise CommandError("there is no search: begin with `lakebed bisect start`") from None
    except ValueError:
        raise CommandError(f"{_file()} is damaged: remove it, and begin again") from None


def _save(state: _Search) -> None:
    draft = _file().with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(state))
    draft.replace(_file())


def _current(state: _Search) -> Commit:
    return state.commits[len(state.commits) // 2]


def _halve(state: _Search, *, is_good: bool) -> _Search:
    """Note what the commit in question is; return what is left: the newest first."""
    commits = state.commits
    half = len(commits) // 2
    if half:
        state = _Search(
            repository=state.repository, commits=commits[:half] if is_good else commits[half:]
        )
        _save(state)
    return state


def _say(state: _Search) -> None:
    commits = state.commits
    if len(commits) == 1:
        typer.echo(f"The first bad commit is lakefs://{state.repository}/{_line(commits[0])}")
        return
    typer.echo(f"{len(commits)} commits are left, about {len(commits).bit_length() - 1} steps")
    typer.echo(f"Look at lakefs://{state.repository}/{_line(_current(state))}")


def _line(commit: Commit) -> str:
    message = commit.message.partition("\n")[0]
    return printable(f"{CommitId(commit.id).short} {message}".rstrip())


def _runs_well(command: list[str], commit: Commit) -> bool:
    """Run a program on a commit; return whether it says that the commit is good.

    Raises:
        CommandError: It cannot be run, which says nothing about the commit.
    """
    facts = {
        "BISECT_ID": commit.id,
        "BISECT_MESSAGE": commit.message,
        "BISECT_COMMITTER": commit.committer,
        "BISECT_METARANGE_ID": commit.meta_range_id,
    }
    words = [command[0]]
    for word in command[1:]:
        for name, value in facts.items():
            word = word.replace(f":{name}:", value)  # noqa: PLW2901 (each name in turn)
        words.append(word)
    try:
        ended = subprocess.run(words, env=os.environ | facts, check=False)  # noqa: S603 (asked for)
    except OSError as error:
        raise CommandError(f"cannot run {command[0]}: {error.strerror}") from None
    code = ended.returncode
    if code in _CANNOT_RUN or code < 0:
        raise CommandError(f"{command[0]} ended with {code}: that says nothing about the commit")
    return code == 0
