"""Records as people read them: each by its kind, without secrets, and damaged ones too."""

import json
from collections import Counter

import pytest

from lakebed.auth import records_pb2 as auth_pb
from lakebed.auth.entities import keys as auth_keys
from lakebed.clients.diagnostics.records import Filter, kind_name, message_of, shown_records
from lakebed.engine import keys as engine_keys
from lakebed.engine import records_pb2 as pb
from lakebed.kv import Store, open_store
from lakebed.kv.records import RecordKind, Records
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_VERSION
from lakebed.lake import keys as catalog_keys
from lakebed.lake.hooks import keys as hooks_keys

REPOSITORY = b"lake-0123456789abcdef0123"


@pytest.fixture
def store() -> Store:
    store = open_store("memory://")
    Records(store, engine_keys.BRANCHES, REPOSITORY).set(
        b"main", pb.Branch(commit_id="c1", staging_token="t1", created_us=1_600_000_000_000_000)
    )
    Records(store, auth_keys.CREDENTIALS, auth_keys.AUTH).set(
        b"AKIA1", auth_pb.Credential(user="ada", secret=b"sealed-secret")
    )
    store.set(b"t1", b"key/\xff/a", pb.StagedEntry(identity=b"\x01\xfe").SerializeToString())
    store.set(METADATA_PARTITION, b"leases/cleaner", b"\xff\xff broken")
    store.set(b"t1", b"what is this", b"???")
    return store


def test_every_kind_of_record_is_known() -> None:
    """Of whatever layer, and also those that come later: they are found in the modules of keys."""
    places = {
        auth_keys: auth_keys.AUTH,
        engine_keys: REPOSITORY,
        catalog_keys: REPOSITORY,
        hooks_keys: REPOSITORY,
    }
    own = {
        "REPOSITORIES": engine_keys.GRAVELER, "CLAIMS": engine_keys.GRAVELER,
        "CLOSED": engine_keys.GRAVELER, "DELETED": engine_keys.DELETED_PARTITION,
        "DROPPED": engine_keys.DROPPED_PARTITION, "LEASES": METADATA_PARTITION,
        "PURGES": catalog_keys.PURGES_PARTITION,
    }  # fmt: skip
    for module, place in places.items():
        for name, kind in vars(module).items():
            if not isinstance(kind, RecordKind):
                continue
            partition = own.get(name, place)
            if name == "WAITING":
                partition = vars(module)["WAITING_PARTITION"]
            key = kind.prefix + getattr(module, f"{name}_NAME", b"some")
            assert message_of(partition, key) is kind.message, (module.__name__, name)
    assert message_of(b"any token", b"key/a/b") is pb.StagedEntry
    assert message_of(b"any token", b"emptied") is pb.Emptied


def test_records_are_readable_and_secrets_are_not(store: Store) -> None:
    found = [each.as_dict() for each in shown_records(store)]
    shown = {(each["kind"], each["key"]): each for each in found}
    assert shown["Branch", "branches/main"]["record"] == {
        "commit_id": "c1",
        "staging_token": "t1",
        "created_us": "2020-09-13T12:26:40+00:00",
    }
    assert shown["Credential", "credentials/AKIA1"]["record"] == {
        "user": "ada",
        "secret": "********",
    }
    assert shown["StagedEntry", "key/\\xff/a"]["record"] == {"identity": "01fe"}
    assert shown["text", "schema_version"]["record"] == {"text": str(SCHEMA_VERSION)}
    assert "record" not in shown["unknown", "what is this"]
    assert "sealed-secret" not in json.dumps(list(shown.values()))


def test_a_damaged_record_is_named_and_not_shown(store: Store) -> None:
    (found,) = [each for each in shown_records(store) if each.damage]
    assert found.as_dict() == {
        "partition": "kv_metadata",
        "key": "leases/cleaner",
        "kind": "Lease",
        "bytes": 9,
        "damaged": "not a Lease (DecodeError)",
    }


@pytest.mark.parametrize("wrong_us", [2**62, -(2**62)])
def test_a_time_that_cannot_be_is_damage(store: Store, wrong_us: int) -> None:
    Records(store, engine_keys.TAGS, REPOSITORY).set(b"v1", pb.Tag(created_us=wrong_us))
    (found,) = shown_records(store, Filter(kind="Tag"))
    assert found.damage == "not a Tag (OverflowError)"


def test_records_are_filtered(store: Store) -> None:
    assert Counter(each.kind for each in shown_records(store, Filter(partition=b"t1"))) == {
        "StagedEntry": 1,
        "unknown": 1,
    }
    assert [each.key for each in shown_records(store, Filter(prefix=b"branches/m"))] == [
        b"branches/main"
    ]
    assert [each.key for each in shown_records(store, Filter(kind="Credential"))] == [
        b"credentials/AKIA1"
    ]
    assert kind_name(METADATA_PARTITION, b"installation_id") == "text"
