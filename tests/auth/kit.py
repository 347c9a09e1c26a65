"""What tests of users and permissions share."""

from lakebed.auth import (
    Action,
    AuthCacheSettings,
    AuthService,
    Context,
    Denied,
    Effect,
    Identity,
    KeyPair,
    NewCredential,
    Permission,
    ServerKeys,
    Statement,
)
from lakebed.auth.policy.actions import object_arn
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import Store

KEYS = ServerKeys(encryption=bytes(range(32)), signing=bytes(range(64)))
QUICKSTART = KeyPair(
    access_key_id="AKIAIOSFOLQUICKSTART",
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
UNCACHED = AuthCacheSettings(cache_seconds=0.0)
NO_ADDRESS = Context(source_ip=None)
READ = Permission(Action.READ_OBJECT, object_arn("lake", "a/b"))
WRITE = Permission(Action.WRITE_OBJECT, object_arn("lake", "a/b"))


def service(
    store: Store,
    runtime: Runtime | None = None,
    *,
    settings: AuthCacheSettings | None = None,
    keys: ServerKeys = KEYS,
) -> AuthService:
    return AuthService(store, runtime or ThreadRuntime(), keys=keys, settings=settings)


def allow(*actions: str, resource: str = "*") -> Statement:
    return Statement(effect=Effect.ALLOW, actions=actions, resource=resource)


def deny(*actions: str, resource: str = "*") -> Statement:
    return Statement(effect=Effect.DENY, actions=actions, resource=resource)


class Clockwork(ThreadRuntime):
    """Time that passes only when someone sleeps."""

    def __init__(self, seconds: float = 1_800_000_000.0) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def equip(auth: AuthService, user: str) -> tuple[NewCredential, Identity]:
    new = auth.credentials.create(user)
    return new, auth.authenticate(new.access_key_id, new.secret_access_key)


def may(auth: AuthService, identity: Identity, permission: Permission) -> bool:
    try:
        auth.authorize(identity, NO_ADDRESS, permission)
    except Denied:
        return False
    return True
