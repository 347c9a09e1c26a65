"""Credentials: the access keys of users, with encrypted secrets.

An access key has two keys in the store: the credential, found by the id of the access key, and an
entry in the index of its user. The index entry is written first and removed last. So every working
credential is in the index, and deleting a user finds all of them. A process that dies between the
two writes leaves an index entry whose access key does not work; it is listed and can be deleted.

A credential contains the unique id of its user, and stops working when the user is deleted.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities import keys as stored
from lakebed.auth.entities.base import Changed, page_of
from lakebed.auth.entities.users import Users
from lakebed.auth.errors import AlreadyExists, AuthenticationFailed, CredentialNotFound
from lakebed.auth.model import (
    AccessKeyID,
    AuthPage,
    Credential,
    Identity,
    KeyPair,
    NewCredential,
    UserID,
)
from lakebed.auth.secrets import (
    SecretBox,
    check_access_key_id,
    check_secret,
    is_access_key_id,
    new_access_key_id,
    new_secret,
)
from lakebed.base.runtime import Runtime, UniqueID, now_us
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store
from lakebed.kv.records import Record, Records

_LOGGER: Final = logging.getLogger(__name__)
_DRAWN_PREFIX: Final = "AKIA"


class AccessKeys:
    """The access keys of all users.

    Raises:
        UserNotFound: The user does not exist, or was deleted.
        CredentialNotFound: The user has no such access key.
        InvalidName, AuthInvalid: The given access key id, or its secret, is not valid.
        AlreadyExists: The given access key id is taken.
        AuthenticationFailed: The access key of a `lookup` is unknown, or its user was deleted.
        OutcomeUnknown: The write may have been done.
    """

    def __init__(
        self, store: Store, runtime: Runtime, users: Users, box: SecretBox, *, changed: Changed
    ) -> None:
        self._runtime = runtime
        self._users = users
        self._box = box
        self._changed = changed
        self._records = Records(store, stored.CREDENTIALS, stored.AUTH)
        self._index = Records(store, stored.USER_CREDENTIALS, stored.AUTH)

    def create(self, user: str, given: KeyPair | None = None) -> NewCredential:
        """Create an access key for a user; only this call returns its secret."""
        unique_id = UniqueID(self._users.live(user).message.unique_id)
        new = self.generate(UserID(user), given)
        predicate = self._free(new.access_key_id)
        line = pb.UserCredential(user_unique_id=unique_id, created_us=new.created_us)
        self._index.set(stored.pair(user, new.access_key_id), line)
        self._write(new.access_key_id, self.sealed(new, unique_id), predicate)
        self._remove_if_orphaned(new, unique_id)
        _LOGGER.info("access key %s of user %s was created", new.access_key_id, user)
        return new

    def list(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> AuthPage[Credential]:
        """Return the access keys of a user, ordered by id."""
        unique_id = UniqueID(self._users.live(user).message.unique_id)
        begin = stored.pair_prefix(user)
        lines = self._index.scan(
            prefix=begin + prefix.encode(), start=begin + stored.start_after(after.encode())
        )
        dead: list[Record[pb.UserCredential]] = []

        def credentials() -> Iterator[Credential]:
            for line in lines:
                if line.message.user_unique_id == unique_id:
                    yield _credential(line)
                else:
                    dead.append(line)

        page = page_of(credentials(), amount)
        self._remove_stale(user, unique_id, dead)
        return page

    def get(self, user: str, access_key_id: str) -> Credential:
        return _credential(self._line(user, access_key_id))

    def delete(self, user: str, access_key_id: str) -> None:
        line = self._line(user, access_key_id)
        self._remove(line, access_key_id)
        _LOGGER.info("access key %s of user %s was deleted", access_key_id, user)

    def lookup(self, access_key_id: str) -> tuple[Identity, str]:
        """Return the owner of an access key, and its secret."""
        record = self._find(access_key_id)
        if record is None:
            raise AuthenticationFailed(f"access key {_shown(access_key_id)} is unknown")
        key, message = AccessKeyID(access_key_id), record.message
        user = self._users.live_messages([message.user]).get(message.user)
        if user is None or user.unique_id != message.user_unique_id:
            with suppress(PredicateFailed, OutcomeUnknown):
                self._records.delete_if(record.name, record.predicate)
            raise AuthenticationFailed(f"the user of access key {access_key_id} was deleted")
        identity = Identity(
            user_id=UserID(message.user),
            unique_id=UniqueID(user.unique_id),
            committer=user.email or message.user,
            access_key_id=key,
        )
        return identity, self._box.open(message.secret, key, identity.unique_id)

    def prune(self, user: str, unique_id: UniqueID) -> None:
        """Remove the access keys of a deleted user."""
        for line in self._index.scan(prefix=stored.pair_prefix(user)):
            if line.message.user_unique_id == unique_id:
                self._remove(line, stored.split_pair(line.name)[1])

    def generate(self, user: UserID, given: KeyPair | None) -> NewCredential:
        """Return a new access key, without storing it."""
        if given is None:
            access_key_id, secret = new_access_key_id(self._runtime), new_secret(self._runtime)
        else:
            access_key_id = AccessKeyID(check_access_key_id(given.access_key_id))
            secret = check_secret(given.secret_access_key)
        return NewCredential(
            access_key_id=access_key_id,
            secret_access_key=secret,
            created_us=now_us(self._runtime),
            user_id=user,
        )

    def sealed(self, new: NewCredential, unique_id: UniqueID) -> pb.Credential:
        """Return the record of a new access key, with its secret encrypted."""
        return pb.Credential(
            user=new.user_id,
            user_unique_id=unique_id,
            created_us=new.created_us,
            secret=self._box.seal(new.secret_access_key, new.access_key_id, unique_id),
        )

    def _find(self, access_key_id: str) -> Record[pb.Credential] | None:
        """Return the record of an access key, or None if missing or not an id."""
        if not is_access_key_id(access_key_id):
            return None
        return self._records.find(access_key_id.encode())

    def _line(self, user: str, access_key_id: str) -> Record[pb.UserCredential]:
        """Return the index entry of a user's access key."""
        unique_id = self._users.live(user).message.unique_id
        line = (
            self._index.find(stored.pair(user, access_key_id))
            if is_access_key_id(access_key_id)
            else None
        )
        if line is None or line.message.user_unique_id != unique_id:
            raise CredentialNotFound(access_key_id)
        return line

    def _free(self, access_key_id: AccessKeyID) -> Predicate:
        """Return the predicate for writing an access key whose id is not in use."""
        record = self._find(access_key_id)
        if record is None:
            return ABSENT
        owner = self._users.live_messages([record.message.user]).get(record.message.user)
        if owner is not None and owner.unique_id == record.message.user_unique_id:
            raise _taken(access_key_id)
        return record.predicate

    def _write(self, key: AccessKeyID, message: pb.Credential, predicate: Predicate) -> None:
        """Write the record of a new access key; its index entry exists already.

        Raises:
            AlreadyExists: The access key was taken meanwhile.
            OutcomeUnknown: The record may have been written. If so, the index has the key.
        """
        try:
            self._records.set_if(key.encode(), message, predicate)
        except OutcomeUnknown:
            found = self._find(key)
            if found is None or found.message != message:
                raise
        except PredicateFailed:
            found = self._find(key)
            if found is None or found.message.user_unique_id != message.user_unique_id:
                self._index.delete(stored.pair(message.user, key))
            raise _taken(key) from None

    def _remove_stale(
        self, user: str, unique_id: UniqueID, dead: Iterable[Record[pb.UserCredential]]
    ) -> None:
        """Remove index entries left by earlier users of the same name."""
        for line in dead:
            # The user is read after the index entry, so the entry cannot belong to a newer user.
            owner = self._users.live_messages([user]).get(user)
            if owner is not None and owner.unique_id == unique_id:
                with suppress(OutcomeUnknown):
                    self._remove(line, stored.split_pair(line.name)[1])

    def _remove_if_orphaned(self, new: NewCredential, unique_id: UniqueID) -> None:
        """Remove a new key if its user was deleted meanwhile: the deletion may have missed it."""
        user = self._users.live_messages([new.user_id]).get(new.user_id)
        if user is None or user.unique_id != unique_id:
            self.prune(new.user_id, unique_id)
            self._remove_credential(new.access_key_id, unique_id)
            raise self._users.missing(new.user_id)

    def _remove(self, line: Record[pb.UserCredential], access_key_id: str) -> None:
        """Remove an access key, then its index entry."""
        try:
            self._remove_credential(access_key_id, UniqueID(line.message.user_unique_id))
        finally:
            self._changed()
        with suppress(PredicateFailed):
            self._index.delete_if(line.name, line.predicate)

    def _remove_credential(self, access_key_id: str, unique_id: UniqueID) -> None:
        record = self._find(access_key_id)
        if record is not None and record.message.user_unique_id == unique_id:
            with suppress(PredicateFailed):
                self._records.delete_if(record.name, record.predicate)


def _credential(line: Record[pb.UserCredential]) -> Credential:
    _, access_key_id = stored.split_pair(line.name)
    return Credential(access_key_id=AccessKeyID(access_key_id), created_us=line.message.created_us)


def _taken(access_key_id: str) -> AlreadyExists:
    return AlreadyExists(f"access key {access_key_id} already exists")


def _shown(access_key_id: str) -> str:
    """Return an unknown access key id for the log, unless it may be a misplaced secret."""
    is_drawn = access_key_id.startswith(_DRAWN_PREFIX) and is_access_key_id(access_key_id)
    return access_key_id if is_drawn else "(not shown)"
