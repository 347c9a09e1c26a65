"""`lakebed gc`: find and delete unreferenced objects."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lakebed.clients.cli.commands import gc_rules
from lakebed.clients.cli.errors import Incomplete, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import LocalRootOption, YesOption
from lakebed.clients.cli.output import Column, Size, Whole, moment, printable, stamp, warn
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import RepositoryArgument, RepositoryUri, is_uri, parse_path
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.paging import list_items
from lakebed.wire.garbage import ExplainQuery, GarbageCollectionRun, UnfinishedUpload

if TYPE_CHECKING:
    from lakebed.block import BlockSettings
    from lakebed.clients.garbage.server import GarbageServer
    from lakebed.reclaim.collector.storage import Storage

_Figures = dict[str, Any]
"""Figures of a report, by name."""

app = new_group()
app.add_typer(gc_rules.app, name="rules")
gc_rules.add_config_commands(app)


@client_command(app, "explain")
def explain(
    session: Session,
    what: Annotated[
        str,
        typer.Argument(
            help="Object (lakefs://my-repo/main/a.csv), commit (lakefs://my-repo/v1), or address"
            " in the storage"
        ),
    ],
) -> None:
    """Explain why an object or a commit is retained or was deleted.

    lakebed gc explain lakefs://my-repo/main/folder/file.csv
    """
    if is_uri(what):
        uri = parse_path(what)
        repository, query = uri.repository, ExplainQuery(ref=uri.ref, path=uri.path)
    else:
        repository, query = _repository_of(session, what), ExplainQuery(address=what)
    found = session.client.garbage.explain(repository, query)
    if session.output.as_json:
        session.output.record(found)
        return
    gone = "is deleted" if query.ref and not query.path else "does not exist"
    words = {"kept": "is retained", "going": "is not retained", "gone": gone}
    session.output.done(f"{found.subject} {words[found.verdict]}:")
    for reason in found.reasons:
        print(f"- {printable(reason)}")


def _repository_of(session: Session, address: str) -> str:
    """Return the repository whose storage namespace contains an address."""
    for repository in list_items(session.client.repositories.list):
        if address.startswith(f"{repository.storage_namespace.rstrip('/')}/"):
            return repository.id
    raise InvalidArguments(
        f"{address!r} is neither the URI of an object or commit, such as lakefs://my-repo/main/a,"
        " nor an address in the storage namespace of a repository that you can list"
    )


@client_command(app, "run")
def run(
    session: Session,
    repository: RepositoryArgument,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Delete nothing, and keep the state")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Full scan; ignore incremental state")
    ] = False,
    assume_quiet: Annotated[
        bool,
        typer.Option(
            "--no-concurrent-writers", help="Unsafe with writers: find and delete in one run"
        ),
    ] = False,
    min_age: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Keep younger objects", show_default="the server's"),
    ] = None,
    max_share: Annotated[
        float, typer.Option(help="Abort if a larger share of all objects would be deleted")
    ] = 0.5,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master", show_default="local")
    ] = None,
    local_root: LocalRootOption = None,
) -> None:
    """Find unreferenced objects, and delete those that an earlier run found.

    lakebed gc run lakefs://my-repo
    """
    from lakebed.clients import garbage  # slow to import
    from lakebed.reclaim.collector.job import CollectorOptions

    settings = session.settings
    options = CollectorOptions(
        dry_run=dry_run,
        clean=clean,
        assume_quiet=assume_quiet,
        min_age_seconds=min_age,
        max_share=max_share,
    )
    with _watched(session) as print_line:
        summary = garbage.run(
            repository.repository,
            endpoint=settings.endpoint,
            access_key_id=settings.access_key_id,
            secret_access_key=settings.secret_access_key,
            storage=_block_settings(local_root),
            options=options,
            master=master,
            print_line=print_line,
        )
    from lakebed.reclaim.collector.report import counts_by_branch  # slow to import

    with _opened(session, repository.repository, local_root) as (_, storage):
        branches = counts_by_branch(storage, summary)
    if session.output.as_json:
        session.output.record({**summary.as_dict(), "branches": branches})
    else:
        session.output.done(summary.sentence())
        session.output.record(_shown(summary.as_dict()))
        session.output.table(_by_branch(summary.commits, branches), _BRANCH_COLUMNS)
    if not summary.success:
        raise Incomplete(f"{summary.failed} objects could not be deleted: {summary.why}")


@contextmanager
def _watched(session: Session) -> Iterator[Callable[[str], None]]:
    """Yield the function to report steps with; a terminal also shows the progress of a step."""
    if session.output.as_json or not sys.stderr.isatty():
        yield warn
        return
    from rich.console import Console  # slow to import, only for terminals
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from lakebed.reclaim.collector.executors.read import TALLY

    step = TextColumn("{task.description} {task.fields[tally]}", markup=False)
    bar = Progress(step, TimeElapsedColumn(), console=Console(stderr=True))
    with bar:
        # The field is formatted at each refresh.
        task = bar.add_task("", tally=TALLY)

        def print_line(line: str) -> None:
            TALLY.begin()
            bar.print(printable(line), markup=False)
            bar.update(task, description=printable(line))

        yield print_line


@client_command(app, "check")
def check(
    session: Session, repository: RepositoryArgument, *, local_root: LocalRootOption = None
) -> None:
    """Check whether garbage collection can run; leaves your objects alone."""
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.clients.garbage.check import examine  # slow to import

    with _opened(session, repository.repository, local_root) as (server, storage):
        findings = list(examine(server, storage, ThreadRuntime()))
    session.output.table(
        findings,
        [
            ("Check", lambda item: item.check),
            ("", lambda item: "ok" if item.ok else "FAILED"),
            ("Found", lambda item: Whole(item.found)),
        ],
    )
    if not all(finding.ok for finding in findings):
        raise Incomplete("a check failed, see above")


@client_command(app, "runs")
def runs(session: Session, repository: RepositoryArgument) -> None:
    """List the runs of a repository, oldest first; needs only a read permission."""

    def figure(name: str) -> Callable[[GarbageCollectionRun], Any]:
        return lambda run: (run.summary or {}).get(name, "")

    session.output.table(
        list_items(session.client.garbage.runs, repository.repository),
        [
            ("Run", lambda run: Whole(run.run_id)),
            ("Began", lambda run: stamp(run.began)),
            ("State", lambda run: run.state + (", dry" if figure("dry_run")(run) else "")),
            ("Mode", figure("mode")),
            ("Waiting", figure("waiting")),
            ("Deleted", figure("deleted")),
            ("Bytes", lambda run: Size(figure("deleted_bytes")(run) or 0)),
            ("Failed", figure("failed")),
            ("Why", lambda run: Whole(run.message)),
        ],
    )


@client_command(app, "show")
def show(
    session: Session,
    repository: RepositoryArgument,
    run_id: Annotated[str, typer.Argument(help="Id of a run, see `lakebed gc runs`")],
    *,
    local_root: LocalRootOption = None,
) -> None:
    """Show the objects that a run found and deleted, by branch."""
    from lakebed.formats.gc_files import GCRunID  # slow to import
    from lakebed.reclaim.collector.report import counts_by_branch, read_summary

    with _opened(session, repository.repository, local_root) as (_, storage):
        summary = read_summary(storage, GCRunID(run_id))
        if summary is None:
            raise InvalidArguments(
                f"{repository} has no finished run {run_id}: see `lakebed gc runs`"
            )
        branches = counts_by_branch(storage, summary)
    if session.output.as_json:
        session.output.record({**summary.as_dict(), "branches": branches})
        return
    session.output.record(_shown(summary.as_dict()))
    session.output.table(
        branches,
        [
            ("Branch", lambda item: item["branch"]),
            ("Objects", lambda item: item["verdict"]),
            ("Count", lambda item: item["objects"]),
            ("Bytes", lambda item: Size(item["bytes"])),
        ],
    )


@client_command(app, "uploads")
def uploads(session: Session, repository: RepositoryArgument) -> None:
    """List unfinished uploads, which `gc run --no-concurrent-writers` waits for."""
    session.output.table(
        _unfinished(session, repository),
        [
            ("Upload", lambda item: Whole(item.id)),
            ("Kind", lambda item: item.kind),
            ("Branch", lambda item: item.branch),
            ("Path", lambda item: item.path),
            ("Begun", lambda item: stamp(item.begun)),
        ],
    )


@client_command(app, "end-uploads")
def end_uploads(
    session: Session,
    repository: RepositoryArgument,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[UPLOAD]...", help="Ids of uploads, see `lakebed gc uploads`"),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All unfinished uploads")] = False,
    yes: YesOption = False,
) -> None:
    """End unfinished uploads; their bytes become garbage.

    lakebed gc end-uploads lakefs://my-repo --all
    """
    if everything == bool(ids):
        raise InvalidArguments("pass the uploads to end, or --all")
    chosen = ids or [item.id for item in _unfinished(session, repository)]
    session.confirm(f"End {len(chosen)} unfinished upload(s) of {repository}?", yes=yes)
    ended = [each for each in chosen if _end(session, repository, each, may_be_over=everything)]
    session.output.done(
        f"Ended {len(ended)} unfinished upload(s) of {repository}", {"ended": ended}
    )


def _end(session: Session, repository: RepositoryUri, upload_id: str, *, may_be_over: bool) -> bool:
    """End an upload; return False if it is already over and `may_be_over`."""
    try:
        session.client.garbage.end_unfinished(repository.repository, upload_id)
    except Refused as error:
        if not (may_be_over and error.status == HTTPStatus.NOT_FOUND):
            raise
        return False
    return True


def _unfinished(session: Session, repository: RepositoryUri) -> Iterator[UnfinishedUpload]:
    return list_items(session.client.garbage.unfinished, repository.repository)


def _block_settings(local_root: Path | None) -> "BlockSettings | None":
    from lakebed.block import LocalSettings  # slow to import

    return None if local_root is None else LocalSettings(local_root.resolve())


@contextmanager
def _opened(
    session: Session, repository: str, local_root: Path | None
) -> "Iterator[tuple[GarbageServer, Storage]]":
    from lakebed.clients.garbage.server import GarbageServer  # slow to import
    from lakebed.reclaim.collector.storage import open_storage

    with closing(GarbageServer(session.settings, repository)) as server:
        yield server, open_storage(server, _block_settings(local_root))


def _shown(summary: _Figures) -> _Figures:
    """Format a summary: readable times, no names of files."""
    hidden = {"counts", "swept", "commits"}
    shown = {
        name.removesuffix("_us"): str(moment(value and value // 1_000_000))
        if name.endswith("_us")
        else value
        for name, value in summary.items()
        if name not in hidden
    }
    commits = summary.get("commits")
    return shown | ({"commits": _of_commits(commits)} if commits else {})


_BRANCH_COLUMNS: Final[list[Column[_Figures]]] = [
    ("Branch", lambda item: item["branch"]),
    ("Expired commits", lambda item: item["expired"]),
    ("Newly marked commits", lambda item: item["marked"]),
    ("Freed by expiry", lambda item: Size(item["freed"])),
    ("Pending confirmation", lambda item: Size(item["waiting"])),
    ("Pending deletion", lambda item: Size(item["due"])),
]


def _by_branch(commits: _Figures, counts: Iterable[_Figures]) -> list[_Figures]:
    """Sum up commits and bytes of garbage by branch, for branches with any."""
    figures: dict[str, _Figures] = {}

    def add(branch: str, name: str, number: int) -> None:
        zeros = dict.fromkeys(("expired", "marked", "freed", "waiting", "due"), 0)
        found = figures.setdefault(branch, {"branch": branch or "(no branch)", **zeros})
        found[name] += number

    for name, group in (("expired", "by_branch"), ("marked", "next_by_branch")):
        for branch, number in commits.get(group, {}).items():
            add(branch, name, number)
    for count in counts:
        if count["verdict"] in {"candidate", "freed"}:
            add(count["branch"], "waiting", count["bytes"])
        if count["verdict"] in {"freed", "due"}:
            add(count["branch"], count["verdict"], count["bytes"])
    return [figures[branch] for branch in sorted(figures)]


def _of_commits(figures: _Figures) -> str:
    """Describe the expiry of old commits."""
    if not figures.get("ran"):
        return "skipped: another process is expiring commits"
    branches = ", ".join(f"{name or '(no branch)'} {n}" for name, n in figures["by_branch"].items())
    return (
        f"{figures['commits']} scanned, {figures['marked']} newly marked,"
        f" {figures['waiting']} marked before, {figures['rescued']} in use again,"
        f" {figures['expired']} expired" + (f" ({branches})" if branches else "")
    )
