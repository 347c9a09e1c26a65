"""The command line: a table of commands, imported on demand.

Imports `lakebed.clients.http` and `lakebed.wire`; commands that start a server or open its database
import more. Public: `main`.
"""

import os
import sys
from typing import Annotated, Final

import typer

from lakebed import __version__
from lakebed.clients.cli.groups import LazyCommands, lazy_group, new_app
from lakebed.clients.cli.options import (
    BaseUriOption,
    ClientConfigOption,
    CommonOptions,
    EndpointOption,
    JsonOption,
    LogLevelOption,
    NoColorOption,
    VerboseOption,
)
from lakebed.clients.cli.output import switch_off_colours
from lakebed.clients.cli.running import run
from lakebed.clients.cli.uris import set_base_uri

COMMANDS: Final = {
    "quickstart": ("server:quickstart", "Start a server for evaluation, with sample data."),
    "run": ("server:run", "Run a server."),
    "setup": ("settings:setup_app", "Create the first administrator of a new server."),
    "config": (
        "settings:config_app",
        "Save the client's settings; check the settings of a server.",
    ),
    "cleaner": ("cleaner:app", "Delete stale internal records (not objects)."),
    "kv": ("kv:app", "Inspect a database, or copy it to another one."),
    "gc": ("gc:app", "Find and delete unreferenced objects."),
    "purge": ("purge:app", "Delete objects permanently, from all commits."),
    "repo": ("repo:app", "Create, list and delete repositories."),
    "branch": ("branch:app", "Create, list, reset, revert and delete branches."),
    "branch-protect": ("branch:protect_app", "Protect branches from direct changes."),
    "commit": ("commits:commit_app", "Commit the staged changes of a branch."),
    "log": ("history:log_app", "Show the history of a ref."),
    "show": ("commits:show_app", "Show one commit."),
    "annotate": ("history:annotate_app", "List objects with the commit that last changed each."),
    "bisect": ("bisect:app", "Find the commit that introduced a problem, by binary search."),
    "diff": ("merge:diff_app", "Show the changes on a branch, or between two refs."),
    "merge": ("merge:merge_app", "Merge a ref into a branch."),
    "pr": ("pulls:app", "Create, list, show, merge and close pull requests."),
    "merge-base": ("merge:merge_base_app", "Find the merge base of two refs."),
    "cherry-pick": ("commits:cherry_pick_app", "Apply the changes of one commit to a branch."),
    "import": ("imports:app", "Import existing objects into a branch, without copying them."),
    "actions": ("actions:app", "Validate action files, and show the runs of hooks."),
    "tag": ("refs:tag_app", "Create, list and delete tags."),
    "fs": ("fs:app", "List, read, upload, download and remove objects."),
    "local": ("local:app", "Work with objects as local files, and commit changes."),
    "auth": ("auth:app", "Manage users, groups, policies and credentials."),
    "refs-dump": ("refs:dump_app", "Dump the branches, tags and commits of a repository."),
    "refs-restore": ("refs:restore_app", "Restore a dump into a bare repository."),
    "migrate": ("migrate:app", "Migrate repositories from lakeFS, without copying objects."),
    "fsck": (
        "diagnose:fsck",
        "Read every file of every commit of a repository, and verify its id.",
    ),
    "diagnose": ("diagnose:diagnose", "Collect facts about a server for a bug report."),
    "usage": ("doctor:usage_app", "Show the number of requests the server has handled."),
    "completion": ("completion:completion", "Print a completion script for a shell."),
    "identity": ("doctor:identity_app", "Show the current user."),
    "doctor": ("doctor:doctor_app", "Check the settings and the server, and suggest fixes."),
}
"""Target and help of each command by name."""

app = new_app("Git-like version control for data lakes.")
app.info.cls = lazy_group(LazyCommands(COMMANDS))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakebed {__version__}")
        raise typer.Exit


@app.callback()
def lakebed(
    *,
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (used by its callback)
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
    as_json: JsonOption = False,
    endpoint: EndpointOption = None,
    config: ClientConfigOption = None,
    base_uri: BaseUriOption = None,
    no_color: NoColorOption = False,
    verbose: VerboseOption = False,
    log_level: LogLevelOption = None,
) -> None:
    """Git-like version control for data lakes."""
    if base_uri is None:
        base_uri = os.environ.get("LAKEBED_BASE_URI") or os.environ.get("LAKECTL_BASE_URI")
        set_base_uri(base_uri)
    if no_color:
        switch_off_colours()
    context.obj = CommonOptions(endpoint, config, as_json, base_uri, no_color, verbose, log_level)


def main() -> None:
    """Run the command."""
    sys.exit(run(app, sys.argv[1:]))
