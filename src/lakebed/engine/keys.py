"""Keys of the key-value store, by kind of record.

| partition              | keys                                                      |
|------------------------|-----------------------------------------------------------|
| graveler               | repos/<repository>, namespaces/<storage namespace>,       |
|                        | closed_namespaces/<storage namespace>                     |
| graveler_deleted       | repo/<repository>/<unique id>                             |
| <repository>-<uid>     | branches/<name>, tags/<name>, commits/<id>, expired/<id>, |
|                        | refused/<id>, settings/…                                  |
| <staging token>        | key/<object path>, emptied                                |
| cleanup_tokens         | <staging token>                                           |
| kv_metadata            | schema_version, installation_id, leases/…, usage/<month>  |

The catalog keeps more in the partition of a repository (`lakebed.lake.keys`), and users and
permissions have a partition of their own (`lakebed.auth.entities.base`).
"""

from typing import Final

from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.kv.records import RecordKind

GRAVELER: Final = b"graveler"


def _names_repository(name: bytes, message: pb.Repository | pb.DeletedRepository) -> None:
    name.decode()
    Namespace.parse(message.storage_namespace)


def _names_creation(name: bytes, message: pb.DeletedRepository) -> None:
    _names_repository(name, message)
    repository, _, unique_id = name.partition(b"/")
    if not (repository and unique_id):
        raise ValueError("its name is not a repository and a unique id")


def _names_namespace(name: bytes, _message: pb.NamespaceClaim) -> None:
    Namespace.parse(name.decode())


_CREATION: Final = ("repository", "unique_id")
REPOSITORIES: Final = RecordKind(
    b"repos/", pb.Repository, ("unique_id", "state"), _names_repository
)
CLAIMS: Final = RecordKind(b"namespaces/", pb.NamespaceClaim, _CREATION, _names_namespace)
CLOSED: Final = RecordKind(b"closed_namespaces/", pb.NamespaceClaim, _CREATION, _names_namespace)

DELETED_PARTITION: Final = b"graveler_deleted"
DELETED: Final = RecordKind(b"repo/", pb.DeletedRepository, check=_names_creation)


BRANCHES: Final = RecordKind(b"branches/", pb.Branch, ("state", "commit_id", "staging_token"))
TAGS: Final = RecordKind(b"tags/", pb.Tag, ("state", "commit_id"))
CREATING: Final = pb.REF_STATE_CREATING
LIVE: Final = pb.REF_STATE_LIVE
"""States of branches and tags (`lakebed.engine.refs.creation`)."""
COMMITS: Final = RecordKind(b"commits/", pb.Commit, ("version",))

REFUSALS: Final = RecordKind(b"refused/", pb.Refusal)
"""The commits refused by hooks, by commit id."""

EXPIRY: Final = RecordKind(b"expired/", pb.Expiry, ("state",))
"""Expiry marks, by commit id."""

RETENTION: Final = RecordKind(b"settings/", pb.Retention)
RETENTION_NAME: Final = b"retention"
RETENTION_SINCE: Final = RecordKind(b"settings/", pb.RetentionSince)
RETENTION_SINCE_NAME: Final = b"retention_since"

PROTECTION: Final = RecordKind(b"settings/", pb.BranchProtection)
PROTECTION_NAME: Final = b"branch_protection"
RESTORED: Final = RecordKind(b"settings/", pb.RestoredRefs)
RESTORED_NAME: Final = b"restored_refs"

STAGED_PREFIX: Final = b"key/"
"""Prefix of object paths in the partition of a staging token."""

EMPTIED: Final = b"emptied"
"""The skip index of listings (`skip_index`), one per staging token. Sorts before all staged keys,
so scans of these do not meet it."""

DROPPED_PARTITION: Final = b"cleanup_tokens"
DROPPED: Final = RecordKind(b"", pb.DroppedToken, (*_CREATION, "branch"))

LEASES: Final = RecordKind(b"leases/", pb.Lease)
INSTALLATION_KEY: Final = b"installation_id"
"""Leases and this key are in the partition of the store's own metadata."""
