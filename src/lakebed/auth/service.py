"""Authentication and authorization of requests."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from lakebed.auth import records_pb2 as pb
from lakebed.auth.cache import AuthCacheSettings, ExpiringCache, ValueT
from lakebed.auth.entities import keys as stored
from lakebed.auth.entities.base import TRIES, page_of
from lakebed.auth.entities.credentials import AccessKeys
from lakebed.auth.entities.policies import Policies
from lakebed.auth.entities.relations import Relations
from lakebed.auth.entities.users import Groups, Users
from lakebed.auth.errors import (
    AlreadySetUp,
    AuthenticationFailed,
    AuthInvalid,
    AuthTooManyTries,
    Denied,
)
from lakebed.auth.model import (
    AccessKeyID,
    AuthPage,
    Group,
    Identity,
    KeyPair,
    NewCredential,
    Policy,
    User,
    UserID,
)
from lakebed.auth.policy.rules import Context, Matcher, Permission, Rules
from lakebed.auth.secrets import SecretBox, ServerKeys, Throttle, is_access_key_id, same_secret
from lakebed.auth.setup import Setup
from lakebed.auth.tokens import NOT_OURS, Token, Tokens
from lakebed.base.runtime import Runtime, UniqueID, now_us, to_us
from lakebed.base.tracing import traced
from lakebed.kv import Store
from lakebed.kv.records import Records


@dataclass(frozen=True, slots=True)
class _Session:
    """User and expiry time of a token."""

    identity: Identity
    expires_at: int


class AuthService:
    """Users, groups, policies and credentials of an installation.

    The methods called by every request (`authenticate`, `authorize`, …) may use a cache: changes
    made through this object are visible at once, changes by other processes after
    `AuthCacheSettings.cache_seconds` at the latest. All other methods read the store.
    """

    users: Users
    groups: Groups
    policies: Policies
    credentials: AccessKeys
    memberships: Relations[pb.User, User, pb.Group, Group]
    """From users to groups."""
    user_policies: Relations[pb.User, User, pb.Policy, Policy]
    """From users to attached policies."""
    group_policies: Relations[pb.Group, Group, pb.Policy, Policy]
    """From groups to attached policies."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        keys: ServerKeys,
        settings: AuthCacheSettings | None = None,
        while_reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Open the users of an installation.

        `while_reading` is entered while uncached credentials are read from the store.
        """
        settings = settings or AuthCacheSettings()
        self._runtime = runtime
        self._refused = settings.refused
        self._tokens = Tokens(keys, runtime)
        self._open(store, SecretBox(keys, runtime))
        self._throttle = Throttle(runtime)

        def reading(load: Callable[[str], ValueT]) -> Callable[[str], ValueT]:
            def call(key: str) -> ValueT:
                with while_reading():
                    return load(key)

            return call

        self._known = ExpiringCache(reading(self._lookup), runtime, settings, caches_failures=True)
        self._accepted = ExpiringCache(reading(self._accepts), runtime, settings)
        self._sessions = ExpiringCache(reading(self._session), runtime, settings)
        self._rules = ExpiringCache(self._load_rules, runtime, settings)
        self._groups = ExpiringCache(self._load_groups, runtime, settings)
        self.groups_of: Final = self._groups.get
        """Returns the names of a user's groups, by the name and the unique id of the user."""

    # Setup

    @traced("auth.is_set_up")
    def is_set_up(self) -> bool:
        """Return whether the first administrator exists."""
        return self._setup.is_done()

    @traced("auth.setup")
    def setup(
        self, username: str, given: KeyPair | None = None, *, email: str = ""
    ) -> NewCredential:
        """Create the first groups and policies and the first administrator; see `setup`.

        Without `given`, an access key is generated.

        Raises:
            AlreadySetUp: The first administrator already exists.
            InvalidName: The name or the access key id is not valid.
            AuthInvalid: The given secret is not valid, or this server refuses the access key.
            OutcomeUnknown: The setup may have succeeded. If not, another call can finish it.
        """
        if given is not None and given.access_key_id in self._refused:
            raise AuthInvalid(
                f"access key {given.access_key_id} is refused by this server: use another key"
            )
        if self._setup.is_done():
            raise AlreadySetUp  # unauthenticated: keep the caches
        try:
            return self._setup.run(username, given, email=email)
        finally:
            self._forget()

    # Authentication

    @traced("auth.authenticate")
    def authenticate(
        self, access_key_id: str, secret_access_key: str, *, client: str | None = None
    ) -> Identity:
        """Return the owner of an access key, if the secret is right.

        Failures are counted by `client`, the client's address, if given.

        Raises:
            AuthenticationFailed: The access key is unknown, or the secret is wrong.
            TooManyLogins: Too many failures of this key from this address; the secret was not
                checked.
        """
        if client is not None:
            self._throttle.check(access_key_id, client)
        try:
            identity, secret = self.secret_for(access_key_id)
        except AuthenticationFailed:
            self._note_failure(access_key_id, client, is_known=False)
            raise
        if not same_secret(secret, secret_access_key):
            self._note_failure(access_key_id, client, is_known=True)
            raise AuthenticationFailed(f"wrong secret for access key {access_key_id}")
        return identity

    def _note_failure(self, access_key_id: str, client: str | None, *, is_known: bool) -> None:
        if client is not None:
            self._throttle.note_failure(access_key_id, client, is_known=is_known)

    @traced("auth.secret_for")
    def secret_for(self, access_key_id: str) -> tuple[Identity, str]:
        """Return the owner of an access key, and its secret to verify a signature."""
        if not is_access_key_id(access_key_id):  # may be long, and failures are cached by key
            raise AuthenticationFailed("access key (not shown) is unknown")
        return self._known.get(access_key_id)

    def accepts(self, access_key_id: str) -> bool:
        """Return whether an access key exists and is not refused."""
        return self._accepted.get(access_key_id)

    @traced("auth.login")
    def login(
        self, access_key_id: str, secret_access_key: str, *, client: str | None = None
    ) -> tuple[Token, int]:
        """Return a token for the owner of an access key, and its expiry in seconds since 1970."""
        identity = self.authenticate(access_key_id, secret_access_key, client=client)
        key = AccessKeyID(access_key_id)
        return self._tokens.issue(identity.user_id, identity.unique_id, key)

    @traced("auth.logout")
    def logout(self, token: str) -> None:
        """End a token early; other processes accept it for up to `cache_seconds`.

        Raises:
            AuthenticationFailed: The token is not of this installation, or has expired.
            OutcomeUnknown: The token may have ended.
        """
        claims = self._tokens.verify(token)
        try:
            ended = pb.Logout(expires_us=to_us(claims.expires_at))
            self._logouts.set(claims.token_id.encode(), ended)
        finally:
            self._forget()

    def clean_logouts(self) -> int:
        """Remove the logout records of expired tokens; return how many."""
        now, removed = now_us(self._runtime), 0
        for record in self._logouts.scan_readable():
            if record.message.expires_us < now:
                self._logouts.delete(record.name)
                removed += 1
        return removed

    @traced("auth.authenticate_token")
    def authenticate_token(self, token: str) -> Identity:
        """Return the user of a token.

        Raises:
            AuthenticationFailed: Another installation signed the token, it has expired or was ended
                by a logout, or its access key or user was deleted.
        """
        session = self._sessions.get(token)
        if self._runtime.now() >= session.expires_at:
            raise AuthenticationFailed(NOT_OURS)
        return session.identity

    # Authorization

    @traced("auth.authorize")
    def authorize(
        self, identity: Identity, context: Context, first: Permission, *rest: Permission
    ) -> None:
        """Check that a user has all given permissions.

        Raises:
            Denied: The policies of the user do not grant one of them.
        """
        rules = self._rules.get((identity.user_id, identity.unique_id))
        for permission in (first, *rest):
            is_granted = rules.resource_filter(permission.action, context)
            if not is_granted(permission.resource):
                raise Denied(identity.user_id, permission.action, permission.resource)

    def resource_filter(self, identity: Identity, context: Context, action: str) -> Matcher:
        """Return a predicate for the resources on which a user may perform an action.

        It uses the current policies: for one listing, not for longer.
        """
        rules = self._rules.get((identity.user_id, identity.unique_id))
        return rules.resource_filter(action, context)

    @traced("auth.effective_policies")
    def effective_policies(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> AuthPage[Policy]:
        """Return the distinct policies of a user and its groups, ordered by name."""
        unique_id = self.users.get(user).unique_id
        by_name = {policy.id: policy for policy in self._effective(user, unique_id)}
        names = sorted(name for name in by_name if name.startswith(prefix) and name > after)
        return page_of((by_name[name] for name in names), amount)

    def _open(self, store: Store, box: SecretBox) -> None:
        runtime, forget = self._runtime, self._forget
        self.users = Users(store, runtime, stored.USERS, prune=self._prune_user, changed=forget)
        self.groups = Groups(store, runtime, stored.GROUPS, prune=self._prune_group, changed=forget)
        self.policies = Policies(
            store, runtime, stored.POLICIES, prune=self._prune_policy, changed=forget
        )
        self.credentials = AccessKeys(store, runtime, self.users, box, changed=forget)
        self.memberships = Relations(
            store, stored.USER_GROUPS, self.users, self.groups, changed=forget
        )
        self.user_policies = Relations(
            store, stored.USER_POLICIES, self.users, self.policies, changed=forget
        )
        self.group_policies = Relations(
            store, stored.GROUP_POLICIES, self.groups, self.policies, changed=forget
        )
        self._logouts = Records(store, stored.LOGOUTS, stored.AUTH)
        self._setup = Setup(store, runtime, self.users, self.credentials)

    def _prune_user(self, user: str, unique_id: UniqueID) -> None:
        self.credentials.prune(user, unique_id)
        self.memberships.prune_source(user, unique_id)
        self.user_policies.prune_source(user, unique_id)

    def _prune_group(self, group: str, unique_id: UniqueID) -> None:
        self.memberships.prune_target(group, unique_id)
        self.group_policies.prune_source(group, unique_id)

    def _prune_policy(self, policy: str, unique_id: UniqueID) -> None:
        self.user_policies.prune_target(policy, unique_id)
        self.group_policies.prune_target(policy, unique_id)

    def _forget(self) -> None:
        for cache in (self._known, self._accepted, self._sessions, self._rules, self._groups):
            cache.clear()

    def _lookup(self, access_key_id: str) -> tuple[Identity, str]:
        if access_key_id in self._refused:
            raise AuthenticationFailed(f"access key {access_key_id} is refused by this server")
        return self.credentials.lookup(access_key_id)

    def _accepts(self, access_key_id: str) -> bool:
        try:
            self._lookup(access_key_id)
        except AuthenticationFailed:
            return False
        return True

    def _session(self, token: str) -> _Session:
        claims = self._tokens.verify(token)
        # Not from the cache of access keys: its entries may be as old as a session may get.
        identity, _ = self._lookup(claims.access_key_id)
        if (identity.user_id, identity.unique_id) != (claims.user_id, claims.unique_id):
            raise AuthenticationFailed(f"user {claims.user_id} of a token was deleted")
        if self._logouts.find(claims.token_id.encode()) is not None:
            raise AuthenticationFailed(f"a token of user {claims.user_id} was ended by a logout")
        return _Session(replace(identity, access_key_id=None), claims.expires_at)

    def _load_rules(self, user: tuple[UserID, UniqueID]) -> Rules:
        user_id, unique_id = user
        return Rules(self._effective(user_id, unique_id), user_id)

    def _load_groups(self, user: tuple[UserID, UniqueID]) -> tuple[str, ...]:
        return tuple(group.id for group in self.memberships.all_targets_of(*user))

    def _effective(self, user: str, unique_id: UniqueID) -> list[Policy]:
        """Return the policies of a user and its groups, perhaps with duplicates.

        They are read from many keys. If a policy moves from one group to another meanwhile, a
        single read could miss a denying policy in both groups. So reads are repeated until two
        agree.
        """
        latest = list(self._collect(user, unique_id))
        for _ in range(TRIES):
            before, latest = latest, list(self._collect(user, unique_id))
            if latest == before:
                return latest
        raise AuthTooManyTries(f"reading the policies of {user}", TRIES)

    def _collect(self, user: str, unique_id: UniqueID) -> Iterator[Policy]:
        yield from self.user_policies.all_targets_of(user, unique_id)
        for group in self.memberships.all_targets_of(user, unique_id):
            yield from self.group_policies.all_targets_of(group.id, group.unique_id)
