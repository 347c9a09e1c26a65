"""`python -m lakebed.clients.ingest`: an import on Spark, also for spark-submit.

    spark-submit ingest.py --from s3://bucket/lake/ --to lakefs://my-repo/main/lake/

where ``ingest.py`` has two lines: ``from lakebed.clients.ingest.__main__ import main`` and
``main()``.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.block import LocalSettings
from lakebed.clients.http.http import Client
from lakebed.clients.http.settings import load_settings
from lakebed.clients.ingest.errors import ImportEnded
from lakebed.clients.ingest.running import JobOptions, run_job
from lakebed.clients.ingest.server import ImportBranch, Started
from lakebed.wire.imports import ImportCreation, ImportLocation, ImportQuery, ImportStatus
from lakebed.wire.refs import CommitCreation

_TARGET: Final = re.compile(r"lakefs://([^/]+)/([^/]+)(?:/(.*))?", re.DOTALL)
_POLL_SECONDS: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run an import and exit."""
    try:
        sys.stdout.write(f"{_import(_parser().parse_args(arguments))}\n")
    except LakebedError as error:
        sys.exit(f"lakebed: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lakebed.clients.ingest",
        description="Import existing objects into a branch in one commit, on Spark.",
    )
    parser.add_argument("--from", dest="source", required=True, metavar="URL")
    parser.add_argument("--to", required=True, metavar="lakefs://REPOSITORY/BRANCH[/PATH]")
    parser.add_argument("--message", "-m", default="Import objects")
    parser.add_argument("--strict", action="store_true", help="fail instead of skipping objects")
    parser.add_argument("--endpoint", help="URL of the server (default: from the settings)")
    parser.add_argument("--local-root", type=Path, help="directory of a local storage")
    return parser


def _import(asked: argparse.Namespace) -> str:
    target = _TARGET.fullmatch(asked.to)
    if target is None:
        sys.exit(f"lakebed: --to is {asked.to!r}: expected lakefs://repository/branch/path")
    branch = ImportBranch(target[1], target[2])
    settings = load_settings(environ=os.environ, config_file=None, endpoint=asked.endpoint)
    root = asked.local_root
    options = JobOptions(storage=root and LocalSettings(root.resolve()), strict=asked.strict)
    path = ImportLocation(type="common_prefix", path=asked.source, destination=target[3] or "")
    body = ImportCreation(
        paths=[path], commit=CommitCreation(message=asked.message), strict=asked.strict, spark=True
    )
    with closing(Client(settings)) as client:
        started = Started.of(client.imports.start(branch.repository, branch.name, body))
        run_job(settings, branch, started, options, _print_line)
        status = _wait(client, branch, started.id)
    assert status.commit is not None, "completed"
    objects, commit = status.ingested_objects, status.commit.id
    return f"Imported {objects} object(s) from {asked.source} in commit {commit}"


def _print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _wait(client: Client, branch: ImportBranch, import_id: str) -> ImportStatus:
    """Wait for the end of an import; return its status."""
    while True:
        query = ImportQuery(id=import_id)
        status = client.imports.status(branch.repository, branch.name, query)
        if status.error:
            raise ImportEnded(f"import {import_id} failed: {status.error.message}")
        if status.completed:
            return status
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
