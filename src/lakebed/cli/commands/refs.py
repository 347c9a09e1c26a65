"""`lakebed refs-dump` and `lakebed refs-restore`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RepositoryArgument
from lakebed.client.errors import CommandError

dump = new_app()
restore = new_app()


@client_command(dump, "refs-dump")
def refs_dump(session: Session, repository: RepositoryArgument) -> None:
    """Write down branches, tags and commits beside the data, and print where.

    lakebed refs-dump lakefs://my-repo > refs.json
    """
    session.output.as_json = True
    session.output.record(
        session.client.call("PUT", "repositories", repository.repository, "refs", "dump")
    )


@client_command(restore, "refs-restore")
def refs_restore(
    session: Session,
    repository: RepositoryArgument,
    *,
    manifest: Annotated[
        Path, typer.Option(metavar="FILE", help="What refs-dump printed; - is the input.")
    ],
) -> None:
    """Restore branches, tags and commits into a bare repository over the same data."""
    session.client.call(
        "PUT",
        "repositories",
        repository.repository,
        "refs",
        "restore",
        body=_read_manifest(manifest),
    )
    session.output.done(f"Restored the refs of {repository}")


def _read_manifest(file: Path) -> Any:
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        raise CommandError(f"{file} is not JSON, expected what refs-dump prints") from None
