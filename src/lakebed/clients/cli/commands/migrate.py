"""`lakebed migrate`: migrate repositories from lakeFS, without copying objects."""

import os
import random
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from lakebed.base.errors import quoted
from lakebed.clients.cli.commands.kv import DatabaseOption, settings_of
from lakebed.clients.cli.errors import Incomplete, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import ServerConfigOption
from lakebed.clients.cli.output import printable
from lakebed.clients.cli.uris import parse_repository

if TYPE_CHECKING:
    from lakebed.base.runtime import Runtime
    from lakebed.block import Namespace
    from lakebed.clients.migrate.addresses import AddressTranslator
    from lakebed.clients.migrate.history import MigrationProgress
    from lakebed.clients.migrate.lakefs_source import LakeFSSource, StorageFiles
    from lakebed.clients.migrate.rounds import Plan, RoundReport

_OURS = "LAKEBED_"

app = new_group("Migrate repositories from lakeFS, without copying objects.")

UriArgument = Annotated[
    str, typer.Argument(metavar="URI", help="Repository in lakeFS: lakefs://repository")
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="NAMESPACE", help="Namespace of the new repository")
]
AsOption = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="New name", show_default="the same")
]
LastOption = Annotated[
    bool, typer.Option("--last", help="Final round, without writes to lakeFS: allow writes here")
]
VerifyOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Compare a random sample of N commits with lakeFS, and read 100 objects of each;"
        " -1: all commits and all objects",
    ),
]
LakeFSRootOption = Annotated[
    Path | None,
    typer.Option(
        "--lakefs-root",
        metavar="PATH",
        help="lakeFS's root of local storage, if its path differs from the one here",
    ),
]
UncommittedOption = Annotated[
    bool, typer.Option("--uncommitted", help="With --last: also migrate uncommitted changes")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only print the numbers of commits and refs to migrate")
]


@app.command("lakefs")
def from_lakefs(
    *,
    uri: UriArgument,
    to: ToOption,
    endpoint: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="lakeFS server", show_default="lakectl's"),
    ] = None,
    name: AsOption = None,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    from_storage: Annotated[
        bool, typer.Option("--from-storage", help="Read metadata files from the storage")
    ] = False,
    lakefs_root: LakeFSRootOption = None,
    last: LastOption = False,
    uncommitted: UncommittedOption = False,
    verify: VerifyOption = 3,
    dry_run: DryRunOption = False,
    gc_is_stopped: Annotated[
        bool, typer.Option("--gc-is-stopped", help="lakeFS's garbage collection rules are unused")
    ] = False,
) -> None:
    """Migrate a repository from a running lakeFS: all commits, branches and tags.

    Commits keep their ids, and entries reference the existing objects. Run the command repeatedly:
    each round migrates the new commits. Until the last round, the repository here is read-only.

    The keys for lakeFS are those of lakectl: its file, or its variables. The settings of the new
    server (--config) define the database and the storage to write to.
    """
    from lakebed.block import Namespace  # slow to import
    from lakebed.clients.http.http import Client
    from lakebed.clients.http.retry import OUTLAST_RESTARTS
    from lakebed.clients.http.settings import load_settings
    from lakebed.clients.migrate.lakefs_server import LakeFSServer
    from lakebed.clients.migrate.lakefs_source import LakeFSSource
    from lakebed.clients.migrate.rounds import Plan

    repository = parse_repository(uri).repository
    keys = load_settings(environ=_lakectls(), config_file=None, endpoint=endpoint)
    with _Target(config, database) as target, ExitStack() as stack:
        client = Client(keys, retry_policy=OUTLAST_RESTARTS)
        stack.callback(client.close)
        server = LakeFSServer(client, repository, target.runtime)
        if server.collects_garbage() and not gc_is_stopped:
            raise InvalidArguments(
                f"lakeFS has garbage collection rules for {repository}, and would delete objects"
                " referenced here: delete the rules (lakectl gc delete-config), or pass"
                " --gc-is-stopped if no garbage collection runs"
            )
        addresses = target.addresses(server.namespace, lakefs_root)
        files = target.files_in(addresses.namespace) if from_storage else server
        plan = Plan(
            repository=name or repository,
            namespace=Namespace.parse(to),
            moved_from=f"{keys.endpoint} {repository}",
            default_branch=server.default_branch,
            metadata=server.metadata(),
            protected=server.protected(),
        )
        target.move(
            LakeFSSource(server, files, addresses),
            plan,
            last=last,
            uncommitted=uncommitted,
            verify=verify,
            dry_run=dry_run,
        )


@app.command("sql")
def from_sql(
    *,
    uri: UriArgument,
    to: ToOption,
    dsn: Annotated[
        str,
        typer.Option(envvar="LAKEBED_MIGRATE_DSN", help="URL of lakeFS's database: postgresql://…"),
    ],
    name: AsOption = None,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    lakefs_root: LakeFSRootOption = None,
    last: LastOption = False,
    uncommitted: UncommittedOption = False,
    verify: VerifyOption = 3,
    dry_run: DryRunOption = False,
) -> None:
    """Migrate a repository from the PostgreSQL database of a lakeFS before version 0.80.

    Otherwise like `lakebed migrate lakefs`. Metadata files are read from the storage.
    """
    from lakebed.block import Namespace  # slow to import
    from lakebed.clients.migrate.lakefs_source import LakeFSSource
    from lakebed.clients.migrate.rounds import Plan
    from lakebed.clients.migrate.sql import SqlRefs

    repository = parse_repository(uri).repository
    with _Target(config, database) as target, ExitStack() as stack:
        refs = SqlRefs(dsn, repository)
        stack.callback(refs.close)
        plan = Plan(
            repository=name or repository,
            namespace=Namespace.parse(to),
            moved_from=f"sql {refs.namespace}",
            default_branch=refs.default_branch,
        )
        addresses = target.addresses(refs.namespace, lakefs_root)
        source = LakeFSSource(refs, target.files_in(addresses.namespace), addresses)
        try:
            target.move(
                source, plan, last=last, uncommitted=uncommitted, verify=verify, dry_run=dry_run
            )
        finally:
            for row, reason in refs.damaged.items():
                typer.echo(printable(f"could not read {row}: {reason}"))
        if refs.damaged:
            raise Incomplete(f"{len(refs.damaged)} rows could not be read, see above")


@app.command("adopt")
def adopt_objects(
    *,
    uri: Annotated[str, typer.Argument(metavar="URI", help="Repository here: lakefs://repository")],
    lakefs_is_off: Annotated[
        bool, typer.Option("--lakefs-is-off", help="No lakeFS uses these objects any more")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE",
            help="Storage namespace in lakeFS",
            show_default="as recorded by the migration",
        ),
    ] = None,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
) -> None:
    """Take over the objects of a migrated repository, so that they can be deleted.

    Purges, retention and garbage collection then treat objects written by lakeFS below its
    namespace like uploaded ones. Imported objects stay foreign. This cannot be undone: lakeFS must
    be off, and no other repository of lakeFS may have imported objects from this one. Refused if
    another repository of this installation references any of them.
    """
    from lakebed.block import Namespace  # slow to import
    from lakebed.clients.migrate.adopt import adopt

    repository = parse_repository(uri).repository
    if not lakefs_is_off:
        raise InvalidArguments(
            f"unreferenced objects of {repository} would be deleted in time, even if lakeFS"
            " references them: turn lakeFS off, upgrade all servers of Lakebed, wait for"
            " imports of these objects into other repositories, then pass --lakefs-is-off"
        )
    with _Target(config, database) as target:
        given = None if namespace is None else Namespace.parse(namespace)
        adopted = adopt(target.engine, repository, given)
    typer.echo(
        f"Repository {repository} has adopted the objects below {adopted.namespace}. Purges,"
        " retention and garbage collection now apply to them."
    )


@app.command("users")
def move_users(
    *,
    endpoint: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="lakeFS server", show_default="lakectl's"),
    ] = None,
) -> None:
    """Copy the users, groups and policies of lakeFS, through the APIs of both servers.

    The keys for lakeFS are those of lakectl; endpoint and key of the server here come from
    LAKEBED_ENDPOINT, LAKEBED_ACCESS_KEY_ID and LAKEBED_SECRET_ACCESS_KEY. Secrets cannot be read
    from lakeFS: every new user gets a new key, which is printed once.
    """
    from lakebed.clients.http.http import Client  # slow to import
    from lakebed.clients.http.settings import load_settings
    from lakebed.clients.migrate.users import migrate_users

    ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS)}
    with ExitStack() as stack:
        source = Client(load_settings(environ=_lakectls(), config_file=None, endpoint=endpoint))
        stack.callback(source.close)
        target = Client(load_settings(environ=ours, config_file=None, endpoint=None))
        stack.callback(target.close)
        moved = migrate_users(source, target)
    typer.echo(
        f"Created {moved.policies:,} policies, {moved.groups:,} groups, {len(moved.keys):,} users"
    )
    for name, key_id, secret in moved.keys:
        typer.echo(printable(f"{name}\t{key_id}\t{secret}"))
    for problem in moved.problems:
        typer.echo(printable(f"failed: {problem}"), err=True)
    if moved.problems:
        raise Incomplete(
            f"{len(moved.problems)} users, groups or policies could not be copied, see above"
        )


def _lakectls() -> dict[str, str]:
    """Return the environment without Lakebed's variables, which describe the server here."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


class _Target:
    """The target installation of a migration."""

    def __init__(self, config: Path | None, database: str | None) -> None:
        from lakebed.base.runtime import ThreadRuntime  # slow to import

        self._settings = settings_of(config, database)
        os.umask(int(self._settings.processes.umask, 8))  # as in the server that will use the files
        self._stack = ExitStack()
        self.runtime: Runtime = ThreadRuntime()

    def __enter__(self) -> Self:
        from lakebed.block import open_block  # slow to import
        from lakebed.engine.engine import Engine
        from lakebed.kv import open_store

        store = self._stack.enter_context(
            open_store(self._settings.database.url, runtime=self.runtime)
        )
        self.block = self._stack.enter_context(
            open_block(self._settings.blockstore.block, runtime=self.runtime)
        )
        self.engine: Engine = Engine(store, self.block, runtime=self.runtime)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def addresses(self, namespace: str, lakefs_root: Path | None) -> "AddressTranslator":
        """Return the translator of addresses from a repository of lakeFS."""
        from lakebed.block import LocalSettings  # slow to import
        from lakebed.clients.migrate.addresses import AddressTranslator

        settings, roots = self._settings.blockstore.block, []
        if isinstance(settings, LocalSettings):
            roots = [settings.root.absolute(), settings.root.resolve()]
        if lakefs_root is not None:
            roots.append(lakefs_root)
        return AddressTranslator(self.block, namespace, dict.fromkeys(roots))

    def files_in(self, namespace: "Namespace") -> "StorageFiles":
        """Return the metadata files of lakeFS below a namespace."""
        from lakebed.clients.migrate.lakefs_source import StorageFiles  # slow to import

        return StorageFiles(self.block, namespace)

    def move(
        self,
        source: "LakeFSSource",
        plan: "Plan",
        *,
        last: bool,
        uncommitted: bool,
        verify: int,
        dry_run: bool,
    ) -> None:
        """Run a round, verify some commits, and print the results."""
        from lakebed.clients.migrate.rounds import run_round  # slow to import

        if dry_run:
            _print_dry_run(source, plan)
            return
        if uncommitted and not last:
            raise InvalidArguments(
                "--uncommitted needs --last: until then, the repository is read-only"
            )
        report = run_round(
            self.engine,
            self.runtime,
            source,
            plan,
            is_last=last,
            with_uncommitted=uncommitted,
            on_progress=_print_progress,
        )
        _print_report(report, plan)
        self._verify(source, plan, verify)
        damages = len(report.progress.missing_parents) + len(report.left_out)
        if damages:
            raise Incomplete(f"{damages} items of lakeFS could not be migrated, see above")

    def _verify(self, source: "LakeFSSource", plan: "Plan", count: int) -> None:
        from lakebed.clients.migrate import verify
        from lakebed.engine.model import RepositoryID  # slow to import

        commits = list(source.refs.commits())
        if 0 <= count < len(commits):
            commits = random.sample(commits, count)
        repository = self.engine.repositories.get(RepositoryID(plan.repository))
        reads = verify.ReadCheck(self.engine, self.block, self.runtime, repository)
        sample = None if count < 0 else verify.SAMPLE
        wrong = unread = 0
        for commit in commits:
            key = verify.find_difference(self.engine, repository, source, commit)
            if key is not None:
                wrong += 1
                typer.echo(printable(f"commit {commit.id} differs at {quoted(key)}"))
            for problem in reads.run(commit, sample=sample):
                unread += 1
                typer.echo(printable(f"commit {commit.id}: cannot read {problem}"))
        for branch in self.engine.branches.list(repository):
            for problem in reads.run_staged(branch.id, sample=sample):
                unread += 1
                typer.echo(printable(f"branch {branch.id}: cannot read {problem}"))
        typer.echo(f"Compared {len(commits):,} commits with lakeFS: {wrong:,} differ")
        which = "all" if sample is None else f"a random sample of up to {sample} each"
        typer.echo(
            f"Read {reads.objects:,} objects ({which}) from the storage: {unread:,} unreadable"
        )
        if wrong or unread:
            raise Incomplete(
                f"{wrong} commits differ from lakeFS, {unread} objects cannot be read here, see"
                " above"
            )


def _print_dry_run(source: "LakeFSSource", plan: "Plan") -> None:
    commits, branches, tags = (
        sum(1 for _ in each)
        for each in (source.refs.commits(), source.refs.branches(), source.refs.tags())
    )
    typer.echo(
        f"{commits:,} commits, {branches:,} branches and {tags:,} tags would be migrated to"
        f" repository {plan.repository} in {plan.namespace}. Nothing was changed."
    )


def _print_progress(progress: "MigrationProgress") -> None:
    if sys.stderr.isatty():
        commits = progress.commits + progress.known_commits
        line = f"{commits:,} commits, {progress.entries:,} entries read"
        typer.echo(f"\r{line}", err=True, nl=False)


def _print_report(report: "RoundReport", plan: "Plan") -> None:
    if sys.stderr.isatty():
        typer.echo("", err=True)
    progress = report.progress
    typer.echo(
        f"Migrated {progress.commits:,} commits ({progress.known_commits:,} already present),"
        f" {report.branches_set:,} branches and {report.tags_set:,} tags;"
        f" deleted {report.branches_deleted:,} branches and {report.tags_deleted:,} tags"
    )
    for commit_id in progress.unproved:
        typer.echo(printable(f"The id of commit {commit_id} does not match its fields"))
    for commit_id, parent in progress.missing_parents:
        typer.echo(printable(f"Parent {parent} of commit {commit_id} is missing"))
    for ref in report.left_out:
        typer.echo(printable(f"Skipped {ref}"))
    if report.staged:
        typer.echo(f"Staged {report.staged:,} uncommitted changes")
    for pattern in report.freeze_rules:
        typer.echo(printable(f"Skipped protection rule '{pattern}', which protects every branch"))
    if report.protected:
        typer.echo(printable(f"Protected branches: {', '.join(report.protected)}"))
    if report.is_last:
        typer.echo(f"Repository {plan.repository} is writable now")
    else:
        typer.echo(
            f"Repository {plan.repository} is read-only. Run again to migrate new commits; for the"
            " final round, stop lakeFS and pass --last."
        )
