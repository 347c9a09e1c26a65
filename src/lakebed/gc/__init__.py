"""Garbage collection on Spark: finds and deletes objects that nothing refers to.

`rules` defines garbage in plain Python; `frames` does the same on Spark. `job` makes a run: it asks
the server to prepare (`server`), opens the storage (`storage`), reads what the run before left
(`state`), judges every object (`judging`, on the frames of `sources`) and writes a `report`. What
runs on the executors of Spark is in `executors`; they import no more than they need.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.block import BlockSettings
    from lakebed.gc.job import Options
    from lakebed.gc.report import Summary

__all__ = ["run"]


def run(
    repository: str,
    *,
    endpoint: str,
    access_key_id: str,
    secret_access_key: str,
    storage: "BlockSettings | None" = None,
    options: "Options | None" = None,
    master: str | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> "Summary":
    """Make a run of garbage collection.

    Args:
        repository: The repository's name.
        endpoint: The server.
        access_key_id: Who asks the server.
        secret_access_key: The secret that goes with it.
        storage: How to open the storage of the repository, here and in the executors; None: as the
            server and the environment say, see `lakebed.gc.storage.block_settings`.
        options: What to do; see `lakebed.gc.job.Options`.
        master: The Spark to run on; None: as ``spark-submit`` says, else this machine.
        say: Called with a line about each step.

    Raises:
        GCError: The run ended early; see `lakebed.gc.errors`.
        ClientError: The server refused, or did not answer.
        LakebedError: The storage failed, or a file is damaged.
        MissingExtraError: PySpark is not installed.
    """
    from lakebed.errors import MissingExtraError  # noqa: PLC0415 - executors import this package

    try:
        from lakebed.gc.job import Job, Options  # noqa: PLC0415 - as above
        from lakebed.gc.spark import new_session  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyspark"):
            raise
        raise MissingExtraError("garbage collection", "spark") from error
    from lakebed.gc.server import Server  # noqa: PLC0415 - as above
    from lakebed.gc.storage import open_storage  # noqa: PLC0415 - as above

    server = Server(
        endpoint, repository, access_key_id=access_key_id, secret_access_key=secret_access_key
    )
    try:
        opened = open_storage(server, storage)
        job = Job(new_session(master), server, opened, say=say)
        return job.run(options or Options())
    finally:
        server.close()
