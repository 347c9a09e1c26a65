"""`lakebed bisect`: find the commit that introduced a problem, by binary search.

The state is a file in the home directory, so each step is a separate command. Only first parents
are followed: all commits before the bad one are good.
"""

import os
import subprocess
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from lakebed.clients.cli.commands.history import commit_text, one_line
from lakebed.clients.cli.errors import CommandError
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import for_scripts, moment
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import RefArgument, same_repository
from lakebed.clients.http.paging import list_items
from lakebed.wire.refs import Commit, LogCommitsQuery

app = new_group()

_FILE: Final = ".lakebed.bisect.json"


class _Search(msgspec.Struct, kw_only=True):
    """State of a search: the remaining commits, newest first."""

    repository: str
    commits: list[Commit]


_CANNOT_RUN: Final = frozenset({126, 127})
"""Exit codes of shells for a missing or not executable program."""


@client_command(app, "start")
def start(session: Session, bad: RefArgument, good: RefArgument) -> None:
    """Start with a bad commit, and an older good commit.

    lakebed bisect start lakefs://my-repo/main lakefs://my-repo/v1
    """
    if _file().exists() and len((running := _load()).commits) > 1:
        raise CommandError(
            f"a search in lakefs://{running.repository} is in progress"
            f" ({len(running.commits)} commits left): end it with `lakebed bisect reset`"
        )
    repository = same_repository(bad, good)
    good_id = session.client.commits.get(repository, good.ref).id
    query = LogCommitsQuery(first_parent=True, stop_at=good_id)
    commits = list(list_items(session.client.refs.log, repository, bad.ref, query))
    if len(commits) < 2 or commits[-1].id != good_id:  # noqa: PLR2004 (the good one and a bad)
        raise CommandError(
            f"{good} is not a first-parent ancestor of {bad}:"
            " choose an older good commit from `lakebed log --first-parent`"
        )
    state = _Search(repository=repository, commits=commits[:-1])
    _save(state)
    _print_state(state)


@app.command()
def good() -> None:
    """Mark the current commit as good."""
    _print_state(_halve(_load(), is_good=True))


@app.command()
def bad() -> None:
    """Mark the current commit as bad."""
    _print_state(_halve(_load(), is_good=False))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(*, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]) -> None:
    """Run a program on each commit: exit code 0 means good. BISECT_ID is the commit's id.

    lakebed bisect run ./check.sh
    """
    state = _load()
    while len(state.commits) > 1:
        commit = _current(state)
        is_good = _is_good(command, commit)
        typer.echo(f"{'good' if is_good else 'bad'}: {one_line(commit)}")
        state = _halve(state, is_good=is_good)
    _print_state(state)


@app.command()
def view() -> None:
    """List the remaining commits."""
    for commit in _load().commits:
        if os.isatty(1):
            typer.echo(commit_text(commit))
        else:
            when = moment(commit.creation_date)
            typer.echo(for_scripts([commit.id, when, commit.committer, commit.message]))


@app.command()
def log() -> None:
    """Show the progress."""
    _print_state(_load())


@app.command()
def reset() -> None:
    """Discard the search."""
    _load()
    _file().unlink()
    typer.echo("Discarded the search")


def _file() -> Path:
    return Path.home() / _FILE


def _load() -> _Search:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=_Search)
    except FileNotFoundError:
        raise CommandError("no search in progress: run `lakebed bisect start`") from None
    except ValueError:
        raise CommandError(f"{_file()} is damaged: remove it, and start again") from None


def _save(state: _Search) -> None:
    draft = _file().with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(state))
    draft.replace(_file())


def _current(state: _Search) -> Commit:
    return state.commits[len(state.commits) // 2]


def _halve(state: _Search, *, is_good: bool) -> _Search:
    """Record the verdict on the current commit; return the new state."""
    commits = state.commits
    half = len(commits) // 2
    if half:
        state = _Search(
            repository=state.repository, commits=commits[:half] if is_good else commits[half:]
        )
        _save(state)
    return state


def _print_state(state: _Search) -> None:
    commits = state.commits
    if len(commits) == 1:
        typer.echo(f"The first bad commit is lakefs://{state.repository}/{one_line(commits[0])}")
        return
    steps = len(commits).bit_length() - 1
    typer.echo(f"{len(commits)} commits left, about {steps} {'step' if steps == 1 else 'steps'}")
    typer.echo(f"Test lakefs://{state.repository}/{one_line(_current(state))}")


def _is_good(command: list[str], commit: Commit) -> bool:
    """Return whether a program finds a commit good; raise if the program fails to run."""
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
        raise CommandError(
            f"{command[0]} ended with {code}, so commit {commit.id} is neither good nor bad: exit"
            " with 0 for a good commit, and with 1 to 125 for a bad one"
        )
    return code == 0
