"""An installation that lies in one folder: `lakebed quickstart` serves it, `lakebed.open` opens it.

Several processes may do so at the same time. Each must be done with an object that nothing names
yet before any other could take it for garbage, so all of them go by the same short times.
"""

from pathlib import Path
from typing import Final

from lakebed.block import LocalSettings
from lakebed.lake.settings import CatalogSettings

NAMESPACE_PREFIX: Final = "local://"
"""What the storage namespace of a repository begins with, unless somebody names another one."""

SHORT_TIMES: Final = CatalogSettings(
    link_life_seconds=1800.0,
    copy_window_seconds=1800.0,
    min_age_seconds=3600.0,
    gap_seconds=1200.0,
)
"""Garbage is old when every upload that could still name it has ended: on one machine, soon."""


def database_url(folder: Path) -> str:
    """Return the URL of the database in a folder."""
    return f"sqlite:///{folder.absolute()}/lakebed.db"


def storage_settings(folder: Path) -> LocalSettings:
    """Return the storage in a folder."""
    return LocalSettings(folder.absolute() / "objects")
