"""Amazon S3 and compatible servers; see `lakebed.block.drivers.s3.store`."""

from lakebed.base.runtime import Runtime
from lakebed.block.drivers.s3.store import S3BlockStore
from lakebed.block.settings import S3Settings


def open_driver(settings: S3Settings, runtime: Runtime) -> S3BlockStore:
    """Open the storage without sending a request. See `lakebed.block.open_block`."""
    return S3BlockStore(settings, runtime)
