"""An installation in a folder, for `lakebed quickstart` and `lakebed.open`.

Concurrent processes share the same short times, so that none deletes an object before another has
referenced the object.
"""

from pathlib import Path
from typing import Final

from lakebed.block import LocalSettings
from lakebed.lake.settings import CatalogSettings

NAMESPACE_PREFIX: Final = "local://"
"""Default prefix of repositories' storage namespaces."""

SHORT_TIMES: Final = CatalogSettings(
    link_life_seconds=1800.0,
    copy_window_seconds=1800.0,
    min_age_seconds=3600.0,
    gap_seconds=1200.0,
)
"""Garbage is old once all uploads with possible references have ended: soon, on one machine."""


def database_url(folder: Path) -> str:
    """Return the URL of the database in a folder."""
    return f"sqlite:///{folder.absolute()}/lakebed.db"


def storage_settings(folder: Path) -> LocalSettings:
    """Return the storage in a folder."""
    return LocalSettings(folder.absolute() / "objects")
