"""What tests of users and permissions share."""

from lakebed.auth import AuthService, AuthSettings, Effect, KeyPair, ServerKeys, Statement
from lakebed.kv import Store
from lakebed.runtime import Runtime, ThreadRuntime

KEYS = ServerKeys(encryption=bytes(range(32)), signing=bytes(range(64)))
QUICKSTART = KeyPair(
    access_key_id="AKIAIOSFOLQUICKSTART",
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
UNCACHED = AuthSettings(cache_seconds=0.0)


def service(
    store: Store,
    runtime: Runtime | None = None,
    *,
    settings: AuthSettings | None = None,
    keys: ServerKeys = KEYS,
) -> AuthService:
    return AuthService(store, runtime or ThreadRuntime(), keys=keys, settings=settings)


def allow(*actions: str, resource: str = "*") -> Statement:
    return Statement(effect=Effect.ALLOW, actions=actions, resource=resource)


def deny(*actions: str, resource: str = "*") -> Statement:
    return Statement(effect=Effect.DENY, actions=actions, resource=resource)
