"""The command line."""

import os
import sys
from typing import Annotated, Final

import typer

from lakebed import __version__
from lakebed.cli.groups import LazyCommands, lazy_group, new_app
from lakebed.cli.options import (
    BaseUriOption,
    ClientConfigOption,
    CommonOptions,
    EndpointOption,
    JsonOption,
    LogLevelOption,
    NoColorOption,
    VerboseOption,
)
from lakebed.cli.running import run
from lakebed.cli.tables import switch_off_colours
from lakebed.cli.uris import set_base_uri

COMMANDS: Final = {
    "quickstart": (
        "lakebed.cli.commands.server:quickstart",
        "Start a server to try things out with.",
    ),
    "run": ("lakebed.cli.commands.server:run", "Run a server."),
    "setup": (
        "lakebed.cli.commands.settings:setup_app",
        "Make the first administrator of a new server.",
    ),
    "config": (
        "lakebed.cli.commands.settings:config_app",
        "Write down where the server is; check the settings of a server.",
    ),
    "cleaner": ("lakebed.cli.commands.cleaner:app", "Remove what nothing names any more."),
    "kv": ("lakebed.cli.commands.kv:app", "Look into a database, or copy it into another one."),
    "gc": ("lakebed.cli.commands.gc:app", "Find and delete objects that nothing refers to."),
    "purge": (
        "lakebed.cli.commands.purge:app",
        "Delete objects from all history, for good.",
    ),
    "repo": ("lakebed.cli.commands.repo:app", "Create, list and delete repositories."),
    "branch": (
        "lakebed.cli.commands.branch:app",
        "Create, list, reset, revert and delete branches.",
    ),
    "branch-protect": (
        "lakebed.cli.commands.branch:protect_app",
        "Protect branches from direct changes.",
    ),
    "commit": ("lakebed.cli.commands.commits:commit_app", "Commit what is staged on a branch."),
    "log": ("lakebed.cli.commands.history:log_app", "Show the commits behind a ref."),
    "show": ("lakebed.cli.commands.commits:show_app", "Show one commit."),
    "annotate": (
        "lakebed.cli.commands.history:annotate_app",
        "List objects with the commit that last changed each.",
    ),
    "bisect": (
        "lakebed.cli.commands.bisect:app",
        "Find the commit that broke something, in a few steps.",
    ),
    "diff": (
        "lakebed.cli.commands.merge:diff_app",
        "Show what changed on a branch, or between two refs.",
    ),
    "merge": ("lakebed.cli.commands.merge:merge_app", "Merge a ref into a branch."),
    "pr": (
        "lakebed.cli.commands.pulls:app",
        "Create, list, show, merge and close pull requests.",
    ),
    "merge-base": (
        "lakebed.cli.commands.merge:merge_base_app",
        "Find the last common commit of two refs.",
    ),
    "cherry-pick": (
        "lakebed.cli.commands.commits:cherry_pick_app",
        "Apply the changes of one commit to a branch.",
    ),
    "import": (
        "lakebed.cli.commands.imports:app",
        "Bring objects that exist into a branch, without copying them.",
    ),
    "actions": (
        "lakebed.cli.commands.actions:app",
        "Check files that ask for hooks, and show the runs of hooks.",
    ),
    "tag": ("lakebed.cli.commands.refs:tag_app", "Create, list and delete tags."),
    "fs": ("lakebed.cli.commands.fs:app", "List, read, upload, download and remove objects."),
    "local": (
        "lakebed.cli.commands.local:app",
        "Work on objects as files in a folder, and commit what you changed.",
    ),
    "auth": ("lakebed.cli.commands.auth:app", "Manage users, groups, policies and credentials."),
    "refs-dump": (
        "lakebed.cli.commands.refs:dump_app",
        "Dump the branches, tags and commits of a repository.",
    ),
    "refs-restore": (
        "lakebed.cli.commands.refs:restore_app",
        "Restore what was dumped into a bare repository.",
    ),
    "migrate": (
        "lakebed.cli.commands.migrate:app",
        "Move repositories in from lakeFS, without copying an object.",
    ),
    "fsck": (
        "lakebed.cli.commands.diagnose:fsck",
        "Read every file of every commit of a repository, and prove its id.",
    ),
    "diagnose": (
        "lakebed.cli.commands.diagnose:diagnose",
        "Make a bundle of facts about a server for a bug report.",
    ),
    "usage": (
        "lakebed.cli.commands.doctor:usage_app",
        "Show how many requests the server has answered.",
    ),
    "completion": (
        "lakebed.cli.commands.completion:completion",
        "Print a script that completes commands in your shell.",
    ),
    "identity": ("lakebed.cli.commands.doctor:identity_app", "Show who you are to the server."),
    "doctor": (
        "lakebed.cli.commands.doctor:doctor_app",
        "Check settings and server, and say what to do.",
    ),
}
"""Each command by name: where it is, and what it does. It is imported when it is called."""

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
    version: Annotated[  # noqa: ARG001 (its callback does it)
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
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
