"""Ids that nobody else draws."""

from lakebed.engine.model import BranchID, RepositoryID, StagingToken, UniqueID
from lakebed.runtime import Runtime


def new_unique_id(runtime: Runtime) -> UniqueID:
    """What tells this creation apart from every other under the same name."""
    return UniqueID(runtime.random_bytes(10).hex())


def new_staging_token(runtime: Runtime, repository: RepositoryID, branch: BranchID) -> StagingToken:
    """The name of a new partition for what writers stage; it says whose it is, to people."""
    return StagingToken(f"{repository}-{branch}:{runtime.random_bytes(16).hex()}")
