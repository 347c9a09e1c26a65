"""The table, created by whichever process comes first."""

import logging
from typing import Final

from lakebed.kv.drivers.postgresql import statements
from lakebed.kv.drivers.postgresql.link import PostgresLink
from lakebed.kv.errors import ForeignStore

_LOGGER: Final = logging.getLogger(__name__)


def prepare_schema(link: PostgresLink) -> None:
    """Create the table if there is none; make sure that it is ours if there is one.

    Raises:
        ForeignStore: There is something else of that name.
        psycopg.Error: The database failed; the connection must be closed, and nothing is half done.
    """
    found = link.execute(statements.DESCRIBE, ()).fetchone()
    if found is None:
        # If one of these fails, the lock goes with the connection.
        link.execute(statements.LOCK_SCHEMA, ())
        link.execute(statements.CREATE_IF_ABSENT, ())
        link.execute(statements.UNLOCK_SCHEMA, ())
        _LOGGER.info("made sure of the table lakebed_kv in a database that had none")
        found = link.execute(statements.DESCRIBE, ()).fetchone()
    assert found is not None
    kind, columns = found
    if kind not in statements.KINDS or tuple(columns) != statements.COLUMNS:
        raise ForeignStore(
            f"the database has a relation lakebed_kv that is not Lakebed's: its columns are"
            f" {', '.join(columns)}"
        )
