"""`lakebed local`: working copies, with lakectl's subcommands."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lakebed.clients.cli.commands.fs.parallel import (
    JobT,
    Outcome,
    Parallel,
    ParallelismOption,
    ResultT,
)
from lakebed.clients.cli.commands.fs.progress import Bar, progress
from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import MetaOption, YesOption, key_values
from lakebed.clients.cli.output import CommitId, warn
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import PathArgument, PathUri, parse_ref
from lakebed.clients.working_copy.copy import (
    SyncSummary,
    Tools,
    WorkingCopy,
    clone,
    link_directory,
    working_copy,
)
from lakebed.clients.working_copy.hashes import cache_file
from lakebed.clients.working_copy.state import RemotePath, find_below, find_root, read_state

app = new_group()

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="[DIRECTORY]", help="Directory (default: the current one)")
]


@client_command(app, "clone")
def clone_folder(
    session: Session,
    path: PathArgument,
    directory: DirectoryArgument = Path(),
    *,
    parallelism: ParallelismOption = 10,
) -> None:
    """Download a folder of a repository as a working copy.

    lakebed local clone lakefs://my-repo/main/data/ data
    """
    with _tools(session, f"Cloning {path}", parallelism) as tools:
        summary = clone(directory, _source(path), tools)
    _print_summary(session, f"Cloned {path} to {directory}", summary)


@client_command(app, "init")
def init(
    session: Session,
    path: PathArgument,
    directory: DirectoryArgument = Path(),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing link")] = False,
) -> None:
    """Link an existing directory to a repository path; transfers nothing.

    lakebed local init lakefs://my-repo/main/data/ data
    """
    with _tools(session, "", 1) as tools:
        state = link_directory(directory, _source(path), tools, force=force)
    session.output.done(
        f"Linked {directory} to {state.source} at commit {state.at_head}; objects without a"
        " local file count as removed",
        {"src": str(state.source), "at_head": state.at_head},
    )


@client_command(app, "status")
def status(
    session: Session,
    directory: DirectoryArgument = Path(),
    *,
    local: Annotated[bool, typer.Option("--local", "-l", help="Only local changes")] = False,
) -> None:
    """Show local and remote changes since the last clone, pull or checkout.

    lakebed local status data
    """
    with _opened(session, directory) as copy:
        changes = [
            {"source": change.side, "change": change.kind, "path": change.path}
            for change in copy.status(local_only=local)
        ]
        state = copy.state
    if state.active_operation:
        warn(f"The last `local {state.active_operation}` was interrupted: run it again")
    session.output.table(
        changes,
        [
            ("Source", lambda item: item["source"]),
            ("Change", lambda item: item["change"]),
            ("Path", lambda item: item["path"]),
        ],
    )


@client_command(app, "pull")
def pull(
    session: Session,
    directory: DirectoryArgument = Path(),
    *,
    force: Annotated[bool, typer.Option("--force", help="Discard local changes")] = False,
    parallelism: ParallelismOption = 10,
) -> None:
    """Apply remote changes, and keep local ones.

    lakebed local pull data
    """
    with _opened(session, directory, "Pulling", parallelism) as copy:
        summary = copy.pull(force=force)
    _print_summary(session, f"Pulled {copy.state.source}", summary)


@client_command(app, "checkout")
def checkout(
    session: Session,
    directory: DirectoryArgument = Path(),
    *,
    ref: Annotated[
        str | None, typer.Option("--ref", "-r", metavar="REF", help="Branch, tag or commit")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All working copies below the directory")
    ] = False,
    yes: YesOption = False,
    parallelism: ParallelismOption = 10,
) -> None:
    """Reset a directory to a commit, and discard local changes.

    lakebed local checkout data --ref lakefs://my-repo/v1
    """
    if every and ref:
        raise InvalidArguments("--all and --ref cannot be combined: pass one of them")
    for root in find_below(directory) if every else [directory]:
        with _opened(session, root, "Checking out", parallelism) as copy:
            if not yes and copy.has_local_changes():
                session.confirm(f"Discard local changes in {root}?", yes=yes)
            summary = copy.checkout(_ref_in(copy, ref))
        _print_summary(session, f"Checked out {summary.commit_id} in {root}", summary)


@client_command(app, "commit")
def commit(
    session: Session,
    directory: DirectoryArgument = Path(),
    *,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="Commit message")],
    meta: MetaOption = None,
    parallelism: ParallelismOption = 10,
) -> None:
    """Commit the local changes of a directory, and apply remote changes.

    lakebed local commit data -m "New lakes"
    """
    if not message.strip():
        raise InvalidArguments(
            'the commit message is empty: describe the change, as in -m "New lakes"'
        )
    with _opened(session, directory, "Committing", parallelism) as copy:
        done = copy.commit(message, key_values(meta))
        source = copy.state.source
    if done is None:
        session.output.done(f"Nothing to commit: {directory} has the same content as {source}")
        return
    session.output.done(
        f"Committed {done.commit_id} to {source}: {done.sent} uploaded, {done.removed} removed"
        f"{_up_to_date(done.up_to_date)}",
        {
            "commit": done.commit_id,
            "uploaded": done.sent,
            "removed": done.removed,
            "skipped": done.up_to_date,
        },
    )
    if done.not_pulled:
        raise CommandError(
            "committed, but these files were changed both locally and on the server meanwhile:"
            f" {', '.join(done.not_pulled[:10])}. Move them away, and run `lakebed local pull`"
        )


@client_command(app, "list")
def list_folders(session: Session, directory: DirectoryArgument = Path()) -> None:
    """List the working copies below a directory.

    lakebed local list
    """
    found = []
    for root in find_below(directory):
        state = read_state(root)
        shown = root.relative_to(directory).as_posix()
        found.append({"directory": shown, "src": str(state.source), "at_head": state.at_head})
    session.output.table(
        found,
        [
            ("Directory", lambda item: item["directory"]),
            ("Source", lambda item: item["src"]),
            ("Commit", lambda item: CommitId(item["at_head"])),
        ],
    )


@contextmanager
def _opened(
    session: Session, directory: Path, title: str = "", parallelism: int = 1
) -> Iterator[WorkingCopy]:
    root = find_root(directory)
    with (
        _tools(session, f"{title} {directory}" if title else "", parallelism) as tools,
        working_copy(root, tools) as copy,
    ):
        yield copy


@contextmanager
def _tools(session: Session, title: str, parallelism: int) -> Iterator[Tools]:
    with progress(session, title, hidden=not title) as bar:
        transfers = _Transfers(parallelism, bar)
        with transfers.reporting_interrupt():
            caches = partial(cache_file, environ=os.environ)
            yield Tools(session.client, transfers, transfers.step, caches)


class _Transfers:
    """Transfers of several rounds, each with its own threads."""

    def __init__(self, parallelism: int, bar: Bar) -> None:
        self._parallelism = parallelism
        self._bar = bar
        self._round: Parallel | None = None
        self._count = 0

    def expect(self, sizes: Iterable[int]) -> None:
        self._bar.expect(sizes)

    def run(
        self, jobs: Iterable[JobT], work: Callable[[JobT], ResultT]
    ) -> Iterator[Outcome[JobT, ResultT]]:
        self._round = Parallel(self._parallelism)
        try:
            for outcome in self._round.run(jobs, work):
                if outcome.error is None:
                    self._count += 1
                self._bar.end_file()
                yield outcome
        finally:
            self._round = None

    def step(self, count: int) -> None:
        """Show the progress of a transfer."""
        if (current := self._round) is not None:
            current.check()
        self._bar(count)

    @contextmanager
    def reporting_interrupt(self) -> Iterator[None]:
        """Print a summary after Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            if self._count:
                warn(f"Interrupted; {self._count} file(s) were transferred. Run again to resume.")
            raise


def _source(path: PathUri) -> RemotePath:
    return RemotePath(path.repository, path.ref, path.prefix)


def _ref_in(copy: WorkingCopy, ref: str | None) -> str | None:
    """Return a ref given by name or by URI, which must be in the same repository."""
    if ref is None or "://" not in ref:
        return ref
    uri = parse_ref(ref)
    if uri.repository != copy.state.source.repository:
        raise InvalidArguments(f"{ref} is not in the repository of {copy.state.source}")
    return uri.ref


def _print_summary(session: Session, done: str, summary: SyncSummary) -> None:
    session.output.done(
        f"{done}: {summary.fetched} downloaded, {summary.removed} removed"
        f"{_up_to_date(summary.up_to_date)}",
        {
            "commit": summary.commit_id,
            "downloaded": summary.fetched,
            "removed": summary.removed,
            "skipped": summary.up_to_date,
        },
    )


def _up_to_date(count: int) -> str:
    return f"; {count} already up to date" if count else ""
