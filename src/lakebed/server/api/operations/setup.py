"""Setup of an installation, login and logout."""

from datetime import UTC, datetime
from typing import Final

from lakebed.auth import KeyPair
from lakebed.server.api.operations.auth import wire_new_credential
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Routes
from lakebed.server.http.authentication import COOKIE, log_out
from lakebed.server.http.browsers import is_https
from lakebed.wire import config as wire

routes = Routes()

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
