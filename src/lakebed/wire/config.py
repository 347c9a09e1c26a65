"""Facts about a server, its setup, and logging in."""

from typing import Any

from msgspec import Struct, field

from lakebed.wire.base import Wire
from lakebed.wire.calls import Resource, call


class VersionConfig(Wire):
    version: str
    version_context: str = ""
    latest_version: str = ""
    upgrade_recommended: Any = None
    upgrade_url: str = ""


class StorageConfig(Struct, kw_only=True):
    blockstore_type: str
    blockstore_namespace_example: str
    blockstore_namespace_ValidityRegex: str  # noqa: N815 - that is what clients read
    default_namespace_prefix: str = ""
    pre_sign_support: bool
    pre_sign_support_ui: bool
    import_support: bool
    import_validity_regex: str
    pre_sign_multipart_upload: bool = False
    blockstore_id: str = ""
    blockstore_description: str = ""


class UIConfig(Struct, kw_only=True):
    custom_viewers: list[str] = field(default_factory=list)


class Config(Struct, kw_only=True):
    version_config: VersionConfig
    storage_config: StorageConfig
    # Older servers omit the rest.
    storage_config_list: list[StorageConfig] = field(default_factory=list)
    ui_config: UIConfig = field(default_factory=UIConfig)
    capabilities_config: dict[str, bool] = field(default_factory=dict)


class UsageReport(Wire):
    year: int
    month: int
    count: int


class InstallationUsageReport(Struct, kw_only=True):
    installation_id: str
    reports: list[UsageReport]


class GarbageCollectionConfig(Wire):
    grace_period: int


class AccessKeyCredentials(Wire):
    access_key_id: str
    secret_access_key: str


class CredentialsWithSecret(Wire):
    access_key_id: str
    secret_access_key: str
    creation_date: int


class Setup(Wire):
    username: str
    key: AccessKeyCredentials | None = None


class LoginConfig(Wire):
    RBAC: str
    login_url: str
    login_failed_message: str
    login_cookie_names: list[str]
    logout_url: str


class SetupState(Struct, kw_only=True):
    state: str
    comm_prefs_missing: bool
    login_config: LoginConfig


class LoginInformation(Wire):
    access_key_id: str
    secret_access_key: str


class AuthenticationToken(Wire):
    token: str
    token_expiration: int


class ConfigAPI(Resource, tag="config"):
    """Facts about a server."""

    @call("healthCheck", "GET", "/healthcheck", status=204)
    def health(self) -> None: ...

    @call("getConfig", "GET", "/config")
    def get(self) -> Config: ...

    @call("getLakeFSVersion", "GET", "/config/version")
    def version(self) -> VersionConfig: ...

    @call("getStorageConfig", "GET", "/config/storage")
    def storage(self) -> StorageConfig: ...

    @call("getGarbageCollectionConfig", "GET", "/config/garbage-collection")
    def garbage_collection(self) -> GarbageCollectionConfig: ...

    @call("getAuthCapabilities", "GET", "/auth/capabilities")
    def auth_capabilities(self) -> dict[str, bool]: ...

    @call("postStatsEvents", "POST", "/statistics", status=204)
    def post_statistics(self, body: dict[str, Any]) -> None: ...

    @call("getUsageReportSummary", "GET", "/usage-report/summary")
    def usage(self) -> InstallationUsageReport: ...


class SetupAPI(Resource, tag="setup"):
    """The first user of an installation, and logins."""

    @call("getSetupState", "GET", "/setup_lakefs")
    def state(self) -> SetupState: ...

    @call("setup", "POST", "/setup_lakefs", statuses=(409,))
    def create(self, body: Setup) -> CredentialsWithSecret: ...

    @call("setupCommPrefs", "POST", "/setup_comm_prefs")
    def set_communication(self, body: dict[str, Any]) -> None: ...

    @call("login", "POST", "/auth/login", statuses=(401, 429))
    def login(self, body: LoginInformation) -> AuthenticationToken: ...

    @call("logout", "POST", "/auth/logout", status=204)
    def logout(self) -> None: ...
