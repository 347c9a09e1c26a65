"""Unique ids."""

from typing import NewType

from lakebed.base.runtime import Runtime

UniqueID = NewType("UniqueID", str)
"""Id drawn at each creation; distinguishes entities created under the same name."""


def new_unique_id(runtime: Runtime) -> UniqueID:
    """Return a new unique id."""
    return UniqueID(runtime.random_bytes(10).hex())
