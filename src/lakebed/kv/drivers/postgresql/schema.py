"""Creation and check of the table."""

import logging
from typing import Final

from lakebed.kv.drivers.postgresql import statements
from lakebed.kv.drivers.postgresql.link import PostgresLink
from lakebed.kv.errors import ForeignStore

_LOGGER: Final = logging.getLogger(__name__)


def prepare_schema(link: PostgresLink) -> None:
    """Create the table if missing, else check its columns.

    Raises:
        ForeignStore: Another relation has this name.
        psycopg.Error: The database failed; close the connection. No partial change remains.
    """
    found = link.execute(statements.DESCRIBE, ()).fetchone()
    if found is None:
        # On failure, the lock is released with the connection.
        link.execute(statements.LOCK_SCHEMA, ())
        link.execute(statements.CREATE_IF_ABSENT, ())
        link.execute(statements.UNLOCK_SCHEMA, ())
        _LOGGER.info("initialized the table lakebed_kv")
        found = link.execute(statements.DESCRIBE, ()).fetchone()
    assert found is not None
    kind, columns = found
    if kind not in statements.KINDS or tuple(columns) != statements.COLUMNS:
        raise ForeignStore(
            f"the relation lakebed_kv is not a Lakebed store: its columns are {', '.join(columns)}"
        )
