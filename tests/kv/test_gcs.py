"""What only the driver of Google Cloud Storage does: its URLs, and the rules of a bucket."""

from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client

from lakebed.kv import ForeignStore, InvalidArgument, StoreUnavailable, UnsafeStore, open_store
from lakebed.kv.drivers.gcs import GCSCells, check_rules
from lakebed.kv.fenced import FencedStore
from lakebed.kv.objects import TOMBSTONE_SECONDS
from lakebed.testing.servers.more_databases import gcs_server, gcs_url
from tests.kit.lake import TurnableClock


@pytest.mark.parametrize(
    "url", ["gs://", "gs://bucket/path", "gs://Bucket", "gs://user:secret@bucket", "gs://x"]
)
def test_a_url_names_a_bucket(url: str) -> None:
    with pytest.raises(InvalidArgument, match="does not name a bucket") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def bucket_with(**properties: Any) -> Bucket:
    bucket = Client("none", credentials=AnonymousCredentials()).bucket("lake")
    bucket._set_properties(properties)
    return bucket


def delete_if(**condition: Any) -> dict[str, Any]:
    return {"rule": [{"action": {"type": "Delete"}, "condition": condition}]}


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"lifecycle": delete_if(age=30)}, "a lifecycle rule deletes objects"),
        ({"retentionPolicy": {"retentionPeriod": "60"}}, "prevents replacing objects"),
        ({"defaultEventBasedHold": True}, "event-based holds are enabled"),
        ({"billing": {"requesterPays": True}}, "requester-pays is enabled"),
    ],
)
def test_a_bucket_that_would_lose_records_is_refused(
    properties: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UnsafeStore, match=complaint):
        check_rules(bucket_with(**properties))


@pytest.mark.parametrize(
    "condition", [{"isLive": False}, {"numNewerVersions": 3}, {"daysSinceNoncurrentTime": 1}]
)
def test_lifecycle_rules_may_delete_noncurrent_versions(condition: dict[str, Any]) -> None:
    check_rules(bucket_with(lifecycle=delete_if(**condition)))


@pytest.mark.slow
@pytest.mark.fetched
def test_old_tombstones_go_and_buckets_of_others_are_refused() -> None:
    clock = TurnableClock()
    with gcs_server(durable=False) as server:
        url = gcs_url(server.port)
        client = Client(
            "none",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": f"http://127.0.0.1:{server.port}"},
        )
        with FencedStore(GCSCells(url, clock), clock) as store:
            store.set(b"p", b"there", b"value")
            store.set(b"p", b"deleted", b"value")
            store.delete(b"p", b"deleted")
            assert [item.key for item in store.scan(b"p")] == [b"there"]
            assert len(list(client.list_blobs("lakebed"))) == 2
            clock.ahead_seconds = TOMBSTONE_SECONDS + 1
            assert [item.key for item in store.scan(b"p")] == [b"there"]
            assert len(list(client.list_blobs("lakebed"))) == 1
        client.create_bucket("others").blob("notes").upload_from_string(b"mine")
        with pytest.raises(ForeignStore, match="others is not empty, and not a Lakebed store"):
            open_store(url.replace("lakebed", "others"))
        with pytest.raises(StoreUnavailable, match="the bucket nowhere does not exist"):
            open_store(url.replace("lakebed", "nowhere"))
        client.close()
