"""``lakebed cleaner``: run the server's background cleaner manually."""

import json
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakebed.clients.cli.commands.kv import DatabaseOption, check_exists, settings_of
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import JsonOption, ServerConfigOption
from lakebed.clients.cli.output import Output

if TYPE_CHECKING:
    from lakebed.reclaim.cleaner import Cleaner, CleanerCounts

_PASSES_AFTER_GRACE: Final = 4
_PAUSE_SECONDS_MAX: Final = 60.0

app = new_group("Delete stale internal records (not objects).")


@app.command()
def run(
    *,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Repeat until no records have to wait")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a pass over the database, and print the counts.

    A server does this every minute. A record is deleted only after the same process has seen it as
    stale for the whole grace period: that needs a server, or --wait.
    """
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.kv import open_store  # slow to import
    from lakebed.reclaim.cleaner import Cleaner  # slow to import

    settings = settings_of(config, database)
    check_exists(settings.database.url)
    grace_seconds = settings.engine.grace_seconds
    runtime = ThreadRuntime()
    with open_store(settings.database.url, runtime=runtime) as store:
        cleaner = Cleaner(store, runtime, grace_seconds=grace_seconds)
        counts = _passes(cleaner, grace_seconds) if wait else cleaner.run_once()
    until = datetime.now().astimezone() + timedelta(seconds=grace_seconds)
    _report(counts, None if wait or not waiting(counts) else until, as_json=as_json)


def waiting(counts: "CleanerCounts") -> int:
    """Return the number of records that wait for a later pass."""
    return counts.creations_waiting + counts.repositories_waiting + counts.tokens_waiting


def _passes(cleaner: "Cleaner", grace_seconds: float) -> "CleanerCounts":
    """Repeat passes until no records wait, or those of the first pass are past their time."""
    pause = min(_PAUSE_SECONDS_MAX, max(0.1, grace_seconds / 4))
    from lakebed.reclaim.cleaner import CREATION_SECONDS  # slow to import

    longest = max(grace_seconds, CREATION_SECONDS) + _PASSES_AFTER_GRACE * pause
    until = time.monotonic() + longest
    total = cleaner.run_once()
    while (waiting(total) or not total.ran) and time.monotonic() < until:
        time.sleep(pause)
        total = _sum(total, cleaner.run_once())
    return total


def _sum(before: "CleanerCounts", last: "CleanerCounts") -> "CleanerCounts":
    """Add up the work done; waiting records are those of the last pass."""
    for name in (
        "creations_ended", "deletions_ended", "claims_removed", "repositories_done",
        "branches_deleted", "tokens_done", "keys_deleted", "uncertain", "unreadable",
    ):  # fmt: skip
        setattr(last, name, getattr(before, name) + getattr(last, name))
    return last


def _report(counts: "CleanerCounts", until: datetime | None, *, as_json: bool) -> None:
    found = asdict(counts)
    if as_json:
        shown = None if until is None else until.isoformat(timespec="seconds")
        typer.echo(json.dumps({**found, "waiting_until": shown}))
        return
    if not found.pop("ran"):
        typer.echo("Another process, probably a server, is cleaning this database; a server does")
        typer.echo("so every minute. No action is needed.")
        return
    Output(as_json=False).table(
        [{"name": name.replace("_", " "), "count": count} for name, count in found.items()],
        [("Record", lambda item: item["name"]), ("Count", lambda item: item["count"])],
    )
    if until is not None:
        typer.echo(
            f"{waiting(counts)} have to wait until at least {until:%H:%M:%S}, for a running server"
            " or this command with --wait"
        )
    elif waiting(counts):
        typer.echo(f"{waiting(counts)} were found meanwhile, and have to wait for another run")
