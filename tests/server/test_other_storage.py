"""A server whose database belongs to another storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.engine.model import RepositoryID
from lakebed.lake.places import parse_namespace
from lakebed.server.processes.preflight import CannotStart
from tests.server.kit import Server, opened


@contextmanager
def started(tmp_path: Path, root: str) -> Iterator[Server]:
    with opened(
        database__url=f"sqlite:///{tmp_path}/lakebed.db",
        blockstore__type="local",
        blockstore__local__root=str(tmp_path / root),
    ) as server:
        yield server


def test_an_empty_storage_beside_a_database_with_repositories_is_refused(tmp_path: Path) -> None:
    """Else all reads would be 410, and what is written is missing in the right storage."""
    with started(tmp_path, "right") as server:
        server.services.catalog.repositories.create(
            RepositoryID("lake"), parse_namespace("local://lakes/lake"), committer="ann"
        )
    with (
        pytest.raises(CannotStart, match=r"has no folder of any repository, such as lake at"),
        started(tmp_path, "wrong"),
    ):
        pass
    with started(tmp_path, "right"):
        pass
    (tmp_path / "wrong" / "lakes" / "lake").mkdir(parents=True)
    with started(tmp_path, "wrong"):
        pass


def test_a_database_without_repositories_goes_with_any_storage(tmp_path: Path) -> None:
    for root in ("one", "two"):
        with started(tmp_path, root):
            pass
