"""Configuration and capabilities of a server; setup, login and logout."""

from datetime import UTC, datetime
from typing import Final

from lakebed import __version__
from lakebed.auth import KeyPair
from lakebed.server.api.operations.auth import wire_new_credential
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Routes, fs
from lakebed.server.http.authentication import COOKIE, log_out
from lakebed.server.http.browsers import is_https
from lakebed.server.services import Services
from lakebed.wire import config as wire

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
def _version() -> wire.VersionConfig:
    return wire.VersionConfig(
        version=__version__,
        version_context="lakeFS",
        latest_version=__version__,
    )


def _storage(services: Services) -> wire.StorageConfig:
    scheme = services.catalog.storage_scheme
    pattern = f"^{scheme}://.+"
    return wire.StorageConfig(
        blockstore_type=_TYPES.get(scheme, scheme),
        blockstore_namespace_example=_EXAMPLES.get(scheme, f"{scheme}://name/example"),
        blockstore_namespace_ValidityRegex=pattern,
        default_namespace_prefix=services.settings.blockstore.default_namespace_prefix or "",
        pre_sign_support=services.catalog.presigning.supported,
        pre_sign_support_ui=False,
        import_support=True,
        import_validity_regex=pattern,
        pre_sign_multipart_upload=services.catalog.presigning.parts_supported,
    )


@routes.add(wire.ConfigAPI.health, Access.ANYONE, needs_slot=False)
def health_check() -> None:
    """Answer 204 while the server runs."""


@routes.add(wire.ConfigAPI.get, Access.SIGNED_IN)
def get_config(request: ApiRequest) -> wire.Config:
    """Return the configuration for clients."""
    storage = _storage(request.services)
    return wire.Config(
        version_config=_version(),
        storage_config=storage,
        storage_config_list=[],
        ui_config=wire.UIConfig(),
        capabilities_config={"async_ops": False},
    )


@routes.add(wire.ConfigAPI.version, Access.SIGNED_IN)
def get_version() -> wire.VersionConfig:
    """Return the version of the server."""
    return _version()


@routes.add(wire.ConfigAPI.storage, _READ)
def get_storage(request: ApiRequest) -> wire.StorageConfig:
    """Return the configuration of the object storage."""
    return _storage(request.services)


@routes.add(wire.ConfigAPI.garbage_collection, Access.SIGNED_IN)
def get_garbage_collection(request: ApiRequest) -> wire.GarbageCollectionConfig:
    """Return the minimum age of objects for garbage collection, in seconds."""
    return wire.GarbageCollectionConfig(
        grace_period=int(request.services.settings.gc.min_age_seconds)
    )


@routes.add(wire.ConfigAPI.auth_capabilities, Access.ANYONE)
def get_auth_capabilities() -> dict[str, bool]:
    """Return the capabilities of user management."""
    return {"invite_user": False, "forgot_password": False}


@routes.add(wire.ConfigAPI.post_statistics, Access.SIGNED_IN)
def post_statistics() -> Reply:
    """Accept and discard statistics from clients."""
    return Reply()


@routes.add(wire.ConfigAPI.usage, _READ)
def get_usage(request: ApiRequest) -> wire.InstallationUsageReport:
    """Return the number of authenticated requests by month."""
    usage = request.services.catalog.usage
    return wire.InstallationUsageReport(
        installation_id=usage.installation_id(),
        reports=[
            wire.UsageReport(year=each.year, month=each.month, count=each.count)
            for each in usage.report()
        ],
    )


_LOGIN: Final = wire.LoginConfig(
    RBAC="internal",
    login_url="/auth/login",
    login_failed_message="The credentials don't match.",
    login_cookie_names=[COOKIE],
    logout_url="/logout",
)


@routes.add(wire.SetupAPI.state, Access.ANYONE)
def get_setup_state(request: ApiRequest) -> wire.SetupState:
    """Return whether the installation is set up."""
    state = "initialized" if request.services.auth.is_set_up() else "not_initialized"
    return wire.SetupState(state=state, comm_prefs_missing=False, login_config=_LOGIN)


@routes.add(wire.SetupAPI.create, Access.ANYONE)
def setup(request: ApiRequest, body: wire.Setup) -> wire.CredentialsWithSecret:
    """Create the first user of a new installation."""
    given = None
    if body.key is not None:
        given = KeyPair(
            access_key_id=body.key.access_key_id, secret_access_key=body.key.secret_access_key
        )
    return wire_new_credential(request.services.auth.setup(body.username, given))


@routes.add(wire.SetupAPI.set_communication, Access.ANYONE)
def set_up_communication() -> Reply:
    """Accept and ignore communication preferences: no messages are ever sent."""
    return Reply()


@routes.add(wire.SetupAPI.login, Access.ANYONE)
def login(request: ApiRequest, body: wire.LoginInformation) -> Reply:
    """Exchange a key pair for a token, which is also set as a cookie."""
    token, expires_at = request.services.auth.login(
        body.access_key_id, body.secret_access_key, client=request.context.source_ip
    )
    expires = datetime.fromtimestamp(expires_at, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Expires={expires}"
    if is_https(request.environ):
        cookie += "; Secure"
    return Reply(
        body=wire.AuthenticationToken(token=token, token_expiration=int(expires_at)),
        headers={"Set-Cookie": cookie},
    )


@routes.add(wire.SetupAPI.logout, Access.ANYONE)
def logout(request: ApiRequest) -> Reply:
    """Revoke the token of the request, and remove the login cookie."""
    log_out(request.services.auth, request.environ)
    return Reply(headers={"Set-Cookie": f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"})
