"""Ids that nobody else draws."""

from typing import NewType

from lakebed.base.runtime import Runtime

UniqueID = NewType("UniqueID", str)
"""Drawn for each creation: it tells two things apart that were created under one name."""


def new_unique_id(runtime: Runtime) -> UniqueID:
    """Return an id that no other creation has."""
    return UniqueID(runtime.random_bytes(10).hex())
