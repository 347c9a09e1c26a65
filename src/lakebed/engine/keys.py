"""The map of the key-value store: where each kind of record is kept.

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

The catalog keeps more in the partition of a repository (`lakebed.catalog.keys`), and users and
permissions have a partition of their own (`lakebed.auth.entities.keys`).
"""

from typing import Final

from lakebed.engine import records_pb2 as pb
from lakebed.kv.records import Kind

GRAVELER: Final = b"graveler"
REPOSITORIES: Final = Kind(b"repos/", pb.Repository)
CLAIMS: Final = Kind(b"namespaces/", pb.NamespaceClaim)
CLOSED: Final = Kind(b"closed_namespaces/", pb.NamespaceClaim)

DELETED_PARTITION: Final = b"graveler_deleted"
DELETED: Final = Kind(b"repo/", pb.DeletedRepository)

BRANCHES: Final = Kind(b"branches/", pb.Branch)
TAGS: Final = Kind(b"tags/", pb.Tag)
COMMITS: Final = Kind(b"commits/", pb.Commit)

REFUSALS: Final = Kind(b"refused/", pb.Refusal)
"""Which commits hooks refused, by the ids of the commits."""

EXPIRY: Final = Kind(b"expired/", pb.Expiry)
"""Marks of commits that expire, by the ids of the commits."""

RETENTION: Final = Kind(b"settings/", pb.Retention)
RETENTION_NAME: Final = b"retention"
RETENTION_SINCE: Final = Kind(b"settings/", pb.RetentionSince)
RETENTION_SINCE_NAME: Final = b"retention_since"

PROTECTION: Final = Kind(b"settings/", pb.BranchProtection)
PROTECTION_NAME: Final = b"branch_protection"
RESTORED: Final = Kind(b"settings/", pb.RestoredRefs)
RESTORED_NAME: Final = b"restored_refs"

STAGED_PREFIX: Final = b"key/"
"""Comes before the path of an object, in the partition of a staging token."""

EMPTIED: Final = b"emptied"
"""The note of listings (`empty_runs`), one for a staging token. It sorts before all staged keys, so
that scans of them do not meet it."""

DROPPED_PARTITION: Final = b"cleanup_tokens"
DROPPED: Final = Kind(b"", pb.DroppedToken)

LEASES: Final = Kind(b"leases/", pb.Lease)
INSTALLATION_KEY: Final = b"installation_id"
"""Leases and this key are in the partition of the store's own metadata."""
