"""Keys of the records of users and permissions. All are in the partition ``auth``.

| keys                                             | value                                 |
|--------------------------------------------------|---------------------------------------|
| users/<user>, groups/<group>, policies/<policy>  | entities                              |
| user_groups/<user> NUL <group>                   | memberships                           |
| user_policies/…, group_policies/…                | attached policies, likewise           |
| credentials/<access key id>                      | its user, and the encrypted secret    |
| user_credentials/<user> NUL <access key id>      | the access keys of a user             |
| logouts/<id of a token>                          | tokens ended before their expiry      |
| setup                                            | whether the installation is set up    |

Names contain no control characters, so NUL separates two names unambiguously, and pairs sort by
their names.
"""

from typing import Final

from lakebed.auth import records_pb2 as pb
from lakebed.kv.records import RecordKind

AUTH: Final = b"auth"

USERS: Final = RecordKind(b"users/", pb.User)
GROUPS: Final = RecordKind(b"groups/", pb.Group)
POLICIES: Final = RecordKind(b"policies/", pb.Policy)

USER_GROUPS: Final = RecordKind(b"user_groups/", pb.Relation)
USER_POLICIES: Final = RecordKind(b"user_policies/", pb.Relation)
GROUP_POLICIES: Final = RecordKind(b"group_policies/", pb.Relation)

CREDENTIALS: Final = RecordKind(b"credentials/", pb.Credential)
USER_CREDENTIALS: Final = RecordKind(b"user_credentials/", pb.UserCredential)

LOGOUTS: Final = RecordKind(b"logouts/", pb.Logout)

SETUP: Final = RecordKind(b"", pb.Setup)
SETUP_NAME: Final = b"setup"

_SEPARATOR: Final = b"\x00"


def pair(left: str, right: str) -> bytes:
    """Return the name of a record for a pair of names."""
    return left.encode() + _SEPARATOR + right.encode()


def split_pair(name: bytes) -> tuple[str, str]:
    """Return the pair in the name of a record."""
    left, _, right = name.partition(_SEPARATOR)
    return left.decode(), right.decode()


def pair_prefix(left: str) -> bytes:
    """Return the prefix of all pairs with this left side."""
    return left.encode() + _SEPARATOR


def start_after(name: bytes) -> bytes:
    """Return the start of a scan that skips a name and all pairs beginning with it."""
    return name + b"\x01" if name else b""
