"""The command line."""

import sys
from typing import Annotated, Final

import typer

from lakebed import __version__
from lakebed.cli.groups import LazyCommands, lazy_group, new_app
from lakebed.cli.options import CommonOptions, ConfigOption, EndpointOption, JsonOption
from lakebed.cli.running import run

COMMANDS: Final = {
    "quickstart": (
        "lakebed.cli.commands.server:quickstart",
        "Start a server to try things out with.",
    ),
    "run": ("lakebed.cli.commands.server:run", "Run a server."),
    "config": ("lakebed.cli.commands.config:app", "Check the settings of a server."),
    "cleaner": ("lakebed.cli.commands.cleaner:app", "Remove what nothing names any more."),
    "gc": ("lakebed.cli.commands.gc:app", "Find and delete objects that nothing refers to."),
    "repo": ("lakebed.cli.commands.repo:app", "Create, list and delete repositories."),
    "branch": (
        "lakebed.cli.commands.branch:app",
        "Create, list, reset, revert and delete branches.",
    ),
    "branch-protect": (
        "lakebed.cli.commands.branch_protect:app",
        "Protect branches from direct changes.",
    ),
    "commit": ("lakebed.cli.commands.commit:app", "Commit what is staged on a branch."),
    "log": ("lakebed.cli.commands.log:app", "Show the commits behind a ref."),
    "show": ("lakebed.cli.commands.show:app", "Show one commit."),
    "diff": (
        "lakebed.cli.commands.diff:app",
        "Show what changed on a branch, or between two refs.",
    ),
    "merge": ("lakebed.cli.commands.merge:app", "Merge a ref into a branch."),
    "merge-base": (
        "lakebed.cli.commands.merge_base:app",
        "Find the last common commit of two refs.",
    ),
    "cherry-pick": (
        "lakebed.cli.commands.cherry_pick:app",
        "Apply the changes of one commit to a branch.",
    ),
    "tag": ("lakebed.cli.commands.tag:app", "Create, list and delete tags."),
    "fs": ("lakebed.cli.commands.fs:app", "List, read, upload, download and remove objects."),
    "auth": ("lakebed.cli.commands.auth:app", "Manage users, groups, policies and credentials."),
    "refs-dump": (
        "lakebed.cli.commands.refs:dump",
        "Dump the branches, tags and commits of a repository.",
    ),
    "refs-restore": (
        "lakebed.cli.commands.refs:restore",
        "Restore what was dumped into a bare repository.",
    ),
    "identity": ("lakebed.cli.commands.identity:app", "Show who you are to the server."),
    "doctor": ("lakebed.cli.commands.doctor:app", "Check settings and server, and say what to do."),
}
"""By name: where it is, and what it does. Nothing is imported before it is called."""

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
    config: ConfigOption = None,
) -> None:
    """Git-like version control for data lakes."""
    context.obj = CommonOptions(endpoint, config, as_json)


def main() -> None:
    """Run the command."""
    sys.exit(run(app, sys.argv[1:]))
