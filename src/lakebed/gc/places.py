"""From a storage namespace and the surroundings to the settings that open it."""

from collections.abc import Mapping
from pathlib import Path

from lakebed.block import (
    AzureSettings,
    BlockSettings,
    GCSSettings,
    LocalSettings,
    Namespace,
    S3Settings,
)
from lakebed.gc.errors import InvalidOption


def block_settings(
    namespace: Namespace, *, local_root: Path | None, environ: Mapping[str, str]
) -> BlockSettings:
    """Return how to open the storage of a namespace.

    Credentials of clouds are found as the vendors' tools find them, on every machine that takes
    part. For S3, the region and the endpoint are taken from the variables that those tools know.

    Raises:
        InvalidOption: Nobody said where the files of a local storage are.
    """
    scheme = namespace.parts.scheme
    if scheme == "local":
        if local_root is None:
            raise InvalidOption(
                f"{namespace} is on the server's own disk: say with --local-root which folder that"
                " is here"
            )
        return LocalSettings(local_root)
    if scheme == "s3":
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        return S3Settings(region=region, endpoint=endpoint, path_style=endpoint is not None)
    if scheme == "gs":
        return GCSSettings()
    if scheme == "https":
        return AzureSettings(account=namespace.parts.host.partition(".")[0])
    raise InvalidOption(
        f"{namespace} is in the memory of the server, where nothing can be collected"
    )
