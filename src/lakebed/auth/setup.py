"""The first administrator: created once, even if several processes try and some of them die.

One record decides. It names an *attempt*, and says whether that has finished. No write changes two
keys, so an attempt may die between any two writes, and another one must be able to start over. In
the end there must not be two administrators, nor one whose secret the winner does not know.

**Steps of an attempt**, and what is left for the next caller if the process dies after each:

1. Claim: write the id of the attempt and its user into the record, if there is no record
   (`ABSENT`), or over an unfinished one that did not change for `PATIENCE_SECONDS`. *Left:* an
   unfinished record. The next caller waits that long, then claims. (The wait only spares work:
   nothing depends on it.)
2. Remove the users of all attempts that were replaced; the record lists them. *Left:* as after
   step 1; the next attempt does it again.
3. Write the first policies and groups, and attach the policies, with unique ids that this attempt
   has drawn. *Left:* as after step 1; the next attempt replaces each by its own.
4. Write the user, its membership in Admins, and its access key. *Left:* an administrator whose
   secret nobody knows. Step 2 of the next attempt removes it with its key, and step 3 gives Admins
   another unique id, so that no earlier membership counts.
5. Finish: mark the record, by `set_if` on the claim of step 1. Only one attempt can do this: it has
   won. *Left:* the installation is set up. If the process dies before it has returned the secret,
   nobody knows the secret; this can happen with every new access key.

**Slow, not dead.** A replaced attempt may still be running. Every write of steps 3 and 4 is
*fenced*: read the key, then make sure that the record still holds the own claim, then `set_if` over
what was read. If the newer attempt has written that key since, the write fails; if it writes the
key later, it replaces what the slow one wrote. Step 5 fails for the slow attempt in any case. It
removes its own user and starts over, which ends with `AlreadySetUp` if the other has finished.
"""

import logging
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.credentials import AccessKeys
from lakebed.auth.entities.keys import (
    AUTH,
    CREDENTIALS,
    GROUP_POLICIES,
    GROUPS,
    POLICIES,
    SETUP,
    SETUP_NAME,
    USER_CREDENTIALS,
    USER_GROUPS,
    USERS,
    pair,
)
from lakebed.auth.entities.named import TRIES
from lakebed.auth.entities.names import check_name
from lakebed.auth.entities.policies import statement_messages
from lakebed.auth.entities.users import Users
from lakebed.auth.errors import AlreadySetUp, AuthTooManyTries
from lakebed.auth.model import KeyPair, NewCredential, UserID
from lakebed.auth.policy.defaults import ADMINS, BASE_GROUPS, BASE_POLICIES
from lakebed.base.ids import UniqueID, new_unique_id
from lakebed.base.runtime import Runtime
from lakebed.kv import (
    ABSENT,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.records import Record, RecordKind, Records

_LOGGER: Final = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1

MessageT = TypeVar("MessageT", bound=Message)


class _Replaced(Exception):
    """Another attempt took over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """An attempt to set up the installation, and its claim."""

    message: pb.Setup
    version: Version
    email: str
    credential: NewCredential

    @property
    def user_unique_id(self) -> UniqueID:
        return UniqueID(self.message.user.unique_id)


class Setup:
    """Sets up an installation, once."""

    def __init__(
        self, store: Store, runtime: Runtime, users: Users, credentials: AccessKeys
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._users = users
        self._credentials = credentials
        self._record = Records(store, SETUP, AUTH)

    def is_done(self) -> bool:
        """Whether the installation is set up."""
        record = self._record.find(SETUP_NAME)
        return record is not None and record.message.finished

    def run(self, user: str, given: KeyPair | None, *, email: str) -> NewCredential:
        """Create the first groups and policies, and an administrator with an access key.

        Raises:
            InvalidName: The name or the given access key id is not valid.
            AuthInvalid: The given secret is not valid.
            AlreadySetUp: Another process has done it.
            OutcomeUnknown: It may have been done. If not, another call can do it.
        """
        check_name("user", user)
        credential = self._credentials.draw(UserID(user), given)
        for _ in range(TRIES):
            found = self._wait_for_others()
            attempt = self._claim(found, user, email, credential)
            if attempt is None:
                continue
            try:
                self._carry_out(attempt)
            except _Replaced:
                _LOGGER.warning("another process took over the setup: starting over")
                self._users.delete_creation(user, attempt.user_unique_id)
            else:
                _LOGGER.info("the installation is set up; its first administrator is %s", user)
                return credential
        raise AuthTooManyTries("setting up the installation", TRIES)

    def _wait_for_others(self) -> Record[pb.Setup] | None:
        """Return the record that an unfinished attempt left; None if nobody has begun.

        Raises:
            AlreadySetUp: An attempt has finished.
        """
        found = self._record.find(SETUP_NAME)
        since = self._runtime.monotonic()
        while found is not None:
            if found.message.finished:
                raise AlreadySetUp
            if self._runtime.monotonic() - since >= PATIENCE_SECONDS:
                break
            self._runtime.sleep(_POLL_SECONDS * (0.5 + self._runtime.random()))
            latest = self._record.find(SETUP_NAME)
            if latest is None or latest.predicate != found.predicate:
                since = self._runtime.monotonic()
            found = latest
        return found

    def _claim(
        self,
        found: Record[pb.Setup] | None,
        user: str,
        email: str,
        credential: NewCredential,
    ) -> _Attempt | None:
        """Step 1; returns None if another attempt was faster."""
        message = pb.Setup()
        if found is not None:
            _LOGGER.warning("a setup did not finish in %g seconds: starting over", PATIENCE_SECONDS)
            message.CopyFrom(found.message)
            message.replaced.append(found.message.user)
        message.attempt_id = new_unique_id(self._runtime)
        first = pb.FirstUser(user=user, unique_id=new_unique_id(self._runtime))
        message.user.CopyFrom(first)
        predicate: Predicate = ABSENT if found is None else found.predicate
        try:
            version = self._record.set_if(SETUP_NAME, message, predicate)
        except PredicateFailed:
            return None
        except OutcomeUnknown:
            latest = self._record.find(SETUP_NAME)
            if latest is None or latest.message != message:
                raise
            version = latest.predicate
        return _Attempt(message=message, version=version, email=email, credential=credential)

    def _carry_out(self, attempt: _Attempt) -> None:
        """Steps 2 to 5.

        Raises:
            _Replaced: Another attempt took over.
        """
        for old in attempt.message.replaced:
            self._users.delete_creation(old.user, UniqueID(old.unique_id))
        groups = self._write_base(attempt)
        self._write_user(attempt, groups[ADMINS])
        self._finish(attempt)

    def _write_base(self, attempt: _Attempt) -> dict[str, UniqueID]:
        """Step 3; returns the unique ids of the groups."""
        policies: dict[str, UniqueID] = {}
        for name, statements in BASE_POLICIES.items():
            policies[name] = new_unique_id(self._runtime)
            policy = pb.Policy(
                unique_id=policies[name],
                created_us=attempt.credential.created_us,
                statements=statement_messages(statements),
            )
            self._replace(attempt, POLICIES, name.encode(), policy)
        groups: dict[str, UniqueID] = {}
        for name, attached in BASE_GROUPS.items():
            groups[name] = new_unique_id(self._runtime)
            group = pb.Group(unique_id=groups[name], created_us=attempt.credential.created_us)
            self._replace(attempt, GROUPS, name.encode(), group)
            for policy_name in attached:
                relation = pb.Relation(
                    source_unique_id=groups[name], target_unique_id=policies[policy_name]
                )
                self._replace(attempt, GROUP_POLICIES, pair(name, policy_name), relation)
        return groups

    def _write_user(self, attempt: _Attempt, admins: UniqueID) -> None:
        """Step 4."""
        new, unique_id = attempt.credential, attempt.user_unique_id
        user = pb.User(unique_id=unique_id, created_us=new.created_us, email=attempt.email)
        self._replace(attempt, USERS, new.user_id.encode(), user)
        membership = pb.Relation(source_unique_id=unique_id, target_unique_id=admins)
        self._replace(attempt, USER_GROUPS, pair(new.user_id, ADMINS), membership)
        line = pb.UserCredential(user_unique_id=unique_id, created_us=new.created_us)
        self._replace(attempt, USER_CREDENTIALS, pair(new.user_id, new.access_key_id), line)
        sealed = self._credentials.sealed(new, unique_id)
        self._replace(attempt, CREDENTIALS, new.access_key_id.encode(), sealed)

    def _finish(self, attempt: _Attempt) -> None:
        """Step 5."""
        message = pb.Setup()
        message.CopyFrom(attempt.message)
        message.finished = True
        try:
            self._record.set_if(SETUP_NAME, message, attempt.version)
        except PredicateFailed:
            raise _Replaced from None
        except OutcomeUnknown:
            found = self._record.find(SETUP_NAME)
            if found is None or found.predicate == attempt.version:
                raise
            if found.message != message:
                raise _Replaced from None

    def _replace(
        self, attempt: _Attempt, kind: RecordKind[MessageT], name: bytes, message: MessageT
    ) -> None:
        """Write a record over what is there, unless another attempt took over."""
        records = Records(self._store, kind, AUTH)
        for _ in range(TRIES):
            found = records.find(name)
            if found is not None and found.message == message:
                return  # the reply to an earlier write was lost
            claim = self._record.find(SETUP_NAME)
            if claim is None or claim.predicate != attempt.version:
                raise _Replaced
            predicate: Predicate = ABSENT if found is None else found.predicate
            # If another was faster, or the outcome is not known, the next round reads again.
            try:
                records.set_if(name, message, predicate)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue
            return
        raise AuthTooManyTries("setting up the installation", TRIES)
