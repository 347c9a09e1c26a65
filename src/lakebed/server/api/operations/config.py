"""Configuration and capabilities of a server, for clients."""

from typing import Final

from lakebed import __version__
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Routes, fs
from lakebed.server.services import Services
from lakebed.wire.config import (
    Config,
    ConfigAPI,
    GarbageCollectionConfig,
    InstallationUsageReport,
    StorageConfig,
    UIConfig,
    UsageReport,
    VersionConfig,
)

routes = Routes()

_READ: Final = fs("ReadConfig", "*")
_EXAMPLES: Final = {
    "local": "local://lakes/example",
    "mem": "mem://lakes/example",
    "s3": "s3://bucket/example",
    "gs": "gs://bucket/example",
    "https": "https://account.blob.core.windows.net/container/example",
}
# Clients compare these names.
_TYPES: Final = {"local": "local", "mem": "mem", "s3": "s3", "gs": "gs", "https": "azure"}


# With another product name, lakectl would warn on every command.
def _version() -> VersionConfig:
    return VersionConfig(
        version=__version__,
        version_context="lakeFS",
        latest_version=__version__,
    )


def _storage(services: Services) -> StorageConfig:
    scheme = services.catalog.storage_scheme
    pattern = f"^{scheme}://.+"
    return StorageConfig(
        blockstore_type=_TYPES[scheme],
        blockstore_namespace_example=_EXAMPLES[scheme],
        blockstore_namespace_ValidityRegex=pattern,
        default_namespace_prefix=services.settings.blockstore.default_namespace_prefix or "",
        pre_sign_support=services.catalog.presigning.supported,
        pre_sign_support_ui=False,
        import_support=True,
        import_validity_regex=pattern,
        pre_sign_multipart_upload=services.catalog.presigning.parts_supported,
    )


@routes.add(ConfigAPI.health, Access.ANYONE, needs_slot=False)
def health_check() -> None:
    """Answer 204 while the server runs."""


@routes.add(ConfigAPI.get, Access.SIGNED_IN)
def get_config(request: ApiRequest) -> Config:
    """Return the configuration for clients."""
    storage = _storage(request.services)
    return Config(
        version_config=_version(),
        storage_config=storage,
        storage_config_list=[],
        ui_config=UIConfig(),
        capabilities_config={"async_ops": False},
    )


@routes.add(ConfigAPI.version, Access.SIGNED_IN)
def get_version() -> VersionConfig:
    """Return the version of the server."""
    return _version()


@routes.add(ConfigAPI.storage, _READ)
def get_storage(request: ApiRequest) -> StorageConfig:
    """Return the configuration of the object storage."""
    return _storage(request.services)


@routes.add(ConfigAPI.garbage_collection, Access.SIGNED_IN)
def get_garbage_collection(request: ApiRequest) -> GarbageCollectionConfig:
    """Return the minimum age of objects for garbage collection, in seconds."""
    return GarbageCollectionConfig(grace_period=int(request.services.settings.gc.min_age_seconds))


@routes.add(ConfigAPI.auth_capabilities, Access.ANYONE)
def get_auth_capabilities() -> dict[str, bool]:
    """Return the capabilities of user management."""
    return {"invite_user": False, "forgot_password": False}


@routes.add(ConfigAPI.post_statistics, Access.SIGNED_IN)
def post_statistics() -> Reply:
    """Accept and discard statistics from clients."""
    return Reply()


@routes.add(ConfigAPI.usage, _READ)
def get_usage(request: ApiRequest) -> InstallationUsageReport:
    """Return the number of authenticated requests by month."""
    usage = request.services.catalog.usage
    return InstallationUsageReport(
        installation_id=usage.installation_id(),
        reports=[
            UsageReport(year=each.year, month=each.month, count=each.count)
            for each in usage.report()
        ],
    )
